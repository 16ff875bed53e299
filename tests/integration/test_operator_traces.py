"""``patchcore ops``: the operators of programs, on the CPU and on the emulated NPU, in processes of their own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from operator_lists import INNER, RESNET, RESNET_CPU, Calls, with_inner

pytest.importorskip("torch")
pytest.importorskip("npu_migrate")

HERE = Path(__file__).resolve().parent
OPS = (sys.executable, "-m", "patchcore", "ops")


class Result(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def view(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> dict[str, Any]:
        return {row["operator"].replace("aten::", ""): row for row in self.view["operators"]}


def ops(folder: Path, *arguments: str, command: tuple[str, ...] = OPS) -> Result:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PATCHCORE_")}
    environment["OMP_NUM_THREADS"] = "1"
    done = subprocess.run(
        [*command, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=900
    )
    return Result(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def traced() -> Result:
    return ops(HERE, "--format", "json", "operator_models:train_resnet")


class TestModel:
    def test_the_operators_on_the_npu_are_those_of_the_list(self, traced: Result) -> None:
        rows = {name: row for name, row in traced.rows.items() if row["status"] != "CPU only"}
        assert rows.keys() == with_inner({name for calls in RESNET.values() for name in calls})
        for name, row in rows.items():
            expected = {phase for phase, calls in RESNET.items() if name in calls}
            assert set(row["phases"]) == expected if not row["inner"] else set(row["phases"]) >= expected, name
            callers = {caller for caller, inner in INNER.items() if name in inner and caller in rows}
            assert row["callers"].keys() == {f"aten::{caller}" for caller in callers}, name

    def test_and_run_as_often(self, traced: Result) -> None:
        total: Calls = {}
        for calls in RESNET.values():
            for name, number in calls.items():
                known = total.get(name, 0)
                total[name] = None if number is None or known is None else known + number
        counted = {name: number for name, number in total.items() if number is not None}
        assert {name: traced.rows[name]["calls"] for name in counted} == counted

    def test_the_operators_on_the_cpu_are_those_of_the_list(self, traced: Result) -> None:
        assert {name for name, row in traced.rows.items() if row["traced"]["cpu"]} == RESNET_CPU

    def test_torch_npu_has_them_all(self, traced: Result) -> None:
        assert traced.code == 0, traced.err
        assert traced.view["counts"].keys() == {"composite", "supported", "CPU only"}
        assert traced.view["table"]["torch_npu"].startswith("2.13")
        assert [trace["exit_code"] for trace in traced.view["traces"]] == [0, 0]
        assert traced.view["notes"] == []

    def test_backward_is_told_by_the_line_of_the_forward_call(self, traced: Result) -> None:
        source = (HERE / "operator_models.py").read_text().splitlines()
        (line,) = (number for number, text in enumerate(source, 1) if "x = self.pool(" in text)
        assert list(traced.rows["max_pool2d_with_indices_backward"]["sites"]) == [f"operator_models.py:{line}"]


PROGRAM = """
import sys
import torch
from layers import taper

print("program", sys.argv[1:])
device = torch.device("npu")
x = torch.ones(3, device=device)
y = taper(x) + torch.special.bessel_j1(x)
print("taper" if y.isfinite().all() else "nothing")
"""
LAYERS = """
import torch

def taper(x):
    return torch.special.bessel_j0(x) + torch.special.bessel_j0(2 * x)
"""
PATCHES = """
import patchcore as pc
import torch

@pc.patch("layers:taper")
def cosine_taper(x):
    return x.cos()

@pc.hookimpl
def register_patches():
    return [cosine_taper]
"""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, str]:
    folder = tmp_path_factory.mktemp("missing")
    for name, text in {"program.py": PROGRAM, "layers.py": LAYERS, "my_patches.py": PATCHES}.items():
        (folder / name).write_text(text)
    options = ("-p", "my_patches", "--device", "npu", "--format", "json", "--html", "ops.html")
    result = ops(folder, *options, "program.py", "--epochs", "3")
    return result, (folder / "ops.html").read_text()


class TestMissing:
    def test_what_a_patch_replaces_is_handled_by_it(self, result: tuple[Result, str]) -> None:
        row = result[0].rows["special_bessel_j0"]
        assert (row["status"], row["calls"], row["falls_back"]) == ("missing", 2, True)
        assert row["sites"] == {"layers.py:5": 2}
        assert (row["left_with_patches"], row["handled"]) == (0, True)
        assert row["handled_by"] == ["my_patches.cosine_taper"]

    def test_the_rest_is_missing_with_its_line_and_exit_code_1(self, result: tuple[Result, str]) -> None:
        row = result[0].rows["special_bessel_j1"]
        assert row["sites"] == {"program.py:9": 1}
        assert (row["left_with_patches"], row["handled"], row["handled_by"]) == (1, False, [])
        assert result[0].code == 1

    def test_the_output_of_the_program_goes_to_stderr(self, result: tuple[Result, str]) -> None:
        assert result[0].err.count("program ['--epochs', '3']") == 2
        assert "patchcore: tracing on npu with patches" in result[0].err

    def test_the_page_has_it_all_and_loads_nothing(self, result: tuple[Result, str]) -> None:
        page = result[1].replace("<wbr>", "")  # where a long name may be broken
        for text in (
            "aten::special_bessel_j0",
            "handled by my_patches.cosine_taper",
            "program.py:9",
            "no patch changes that",
        ):
            assert text in page
        assert re.findall(r"<script[^>]+src|<link|<img|https?://", page) == []


PHASES = """
import threading
import torch
from torch.autograd import Function, grad

weight = torch.nn.Parameter(torch.ones(2))
weight.grad = torch.ones(2)

class Double(Function):
    @staticmethod
    def forward(ctx, x):
        return x + x

    @staticmethod
    def backward(ctx, gradient):
        return gradient.asinh()

def closure():
    lbfgs.zero_grad(set_to_none=False)
    loss = Double.apply(weight).cosh().sum()
    loss.backward()
    return loss

lbfgs = torch.optim.LBFGS([weight], max_iter=1)
lbfgs.step(closure)
grad(weight.atan().sum(), weight)
torch.nn.utils.clip_grad_value_([weight], 0.1)
thread = threading.Thread(target=lambda: weight.detach().erf())
thread.start()
thread.join()
try:
    torch.ones(2).mm(torch.ones(2))
except RuntimeError:
    print("raised")
weight.tan()
"""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("phases")
    (folder / "phases.py").write_text(PHASES)
    result = ops(folder, "--device", "cpu", "--format", "json", "phases.py")
    assert "raised" in result.err
    assert "judged by what runs on the CPU" in result.view["notes"][0]
    return result.rows


class TestPhasesAndLines:
    @pytest.mark.parametrize(
        ("operator", "phase", "code"),
        [
            ("cosh", "forward", "loss = Double"),  # in the closure of an optimizer
            ("asinh", "backward", "return gradient.asinh()"),  # a backward function of the program's own
            ("zero_", "optimizer", "lbfgs.zero_grad"),
            ("_foreach_clamp_min_.Scalar", "clipping", "torch.nn.utils.clip_grad_value_"),
            ("atan", "forward", "grad(weight.atan()"),
            ("erf", "forward", "thread = threading"),
            ("tan", "forward", "weight.tan()"),
        ],
    )
    def test_each_call_has_its_phase_and_line(self, rows: dict[str, Any], operator: str, phase: str, code: str) -> None:
        (line,) = (number for number, text in enumerate(PHASES.splitlines(), 1) if code in text)
        assert list(rows[operator]["phases"]) == [phase]
        assert list(rows[operator]["sites"]) == [f"phases.py:{line}"]

    def test_what_raises_is_counted(self, rows: dict[str, Any]) -> None:
        assert (rows["mm"]["calls"], rows["mm"]["raised"]) == (1, 1)


class TestTable:
    def test_it_knows_every_operator_of_its_torch_and_what_runs_it(self) -> None:
        """The words are those of torch's dispatcher, which the table was read from with torch_npu beside it."""
        import torch

        from npu_migrate.ops.tables import Table

        table = Table.read("2.13.0")
        if torch.__version__.split("+")[0] != table.torch:
            pytest.skip(f"torch {torch.__version__} is here, the table is for {table.torch}")
        has = torch._C._dispatch_has_kernel_for_dispatch_key
        names = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
        assert len(names) > 3000
        for name in names:
            word = table.operators[name]
            if word == "implicit":
                assert has(name, "CompositeImplicitAutograd"), name
            elif word == "explicit":
                assert has(name, "CompositeExplicitAutograd"), name
            elif word == "structured":
                assert has(name, "CompositeExplicitAutogradNonFunctional"), name
            elif word == "none":
                structured = has(name, "CompositeExplicitAutogradNonFunctional")  # and its out variant has none
                assert structured or not has(name, "CompositeExplicitAutograd"), name
                assert not has(name, "CompositeImplicitAutograd"), name
            else:
                assert word in ("kernel", "sparse")

    def test_what_a_structured_operator_calls_is_read_from_torch(self) -> None:
        sys.path.insert(0, str(HERE.parents[1] / "tools"))
        try:
            from operator_table import structured_delegates
        finally:
            del sys.path[0]
        delegates = structured_delegates()
        assert delegates["aten::add.Tensor"] == "aten::add.out"
        assert delegates["aten::gelu"] == "aten::gelu.out"
        assert "aten::relu" not in delegates


class TestUsage:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("missing.py",), "can't find 'missing.py'"),
            (("--torch-npu", "1.8", "operator_models.py"), "--torch-npu 1.8: expected a version that has a table here"),
            (("--html", "no/such/ops.html", "operator_models.py"), "there is no directory"),
        ],
    )
    def test_it_says_what_is_wrong_before_it_runs_anything(
        self,
        arguments: tuple[str, ...],
        message: str,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        from patchcore.cli import main

        monkeypatch.chdir(HERE)
        assert main(["ops", *arguments]) == 2
        captured = capsys.readouterr()
        assert message in captured.err
        assert "tracing" not in captured.err

    def test_without_jinja_it_does_not_run_the_program_for_a_page(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from patchcore.cli import main

        monkeypatch.chdir(HERE)
        monkeypatch.setitem(sys.modules, "jinja2", None)
        assert main(["ops", "--html", "ops.html", "operator_models.py"]) == 2
        captured = capsys.readouterr()
        assert "patchcore ops --html needs Jinja2, which is not installed: " in captured.err
        assert "tracing" not in captured.err

    def test_a_program_that_fails_is_said_and_counts(self, tmp_path: Path) -> None:
        (tmp_path / "fails.py").write_text("import torch\ntorch.ones(2).sin()\nraise SystemExit(7)\n")
        result = ops(tmp_path, "--device", "cpu", "fails.py")
        assert result.code == 1
        assert "aten::sin" in result.out
        assert "the program ended with exit code 7 on cpu" in result.out
