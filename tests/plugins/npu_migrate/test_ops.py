"""``patchcore ops`` without running anything: tables, what is made of traces, pages, call sites. No torch is needed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("npu_migrate")

from npu_migrate.ops import printing
from npu_migrate.ops.judging import Trace, judge
from npu_migrate.ops.records import OTHERS, OperatorRecord, ProcessTrace, merge, read_processes
from npu_migrate.ops.running import Program
from npu_migrate.ops.sites import Replaced, Sites
from npu_migrate.ops.tables import Table as OperatorTable
from npu_migrate.ops.tables import available, choose, excluded_dtypes
from patchcore.errors import SettingsError


def test_none_of_it_imports_torch() -> None:
    import subprocess

    code = (
        "import sys, npu_migrate.plugin, npu_migrate.ops.command, npu_migrate.ops.tracing\n"
        "assert 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.fixture(scope="module")
def table() -> OperatorTable:
    return OperatorTable.read("2.13.0")


class TestTables:
    @pytest.mark.parametrize(
        ("operator", "word"),
        [
            ("aten::convolution", "kernel"),
            ("npu::npu_fusion_attention", "kernel"),
            ("aten::t", "composite"),  # explicit: calls transpose
            ("aten::linear", "composite"),  # implicit: autograd never sees it
            ("aten::gelu", "composite"),  # structured: calls gelu.out, which has a kernel
            ("aten::special_bessel_j0", "none"),  # structured too, and its out variant has none
            ("aten::cudnn_batch_norm", "none"),
            ("aten::_coalesce", "kernel"),  # of sparse tensors
            ("torchvision::nms", None),
        ],
    )
    def test_what_runs_an_operator(self, table: OperatorTable, operator: str, word: Optional[str]) -> None:
        assert table.word(operator) == word

    @pytest.mark.parametrize(
        ("operator", "dtypes", "excluded"),
        [
            ("aten::mm", {"float64", "float32"}, ("float64",)),
            ("aten::add.Tensor", {"float64", "complex64"}, ("complex64",)),
            ("aten::add_.Tensor", {"float64"}, ()),
            ("aten::mm", {"bfloat16", "int64"}, ()),  # these are not looked up
            ("aten::special_bessel_j0", {"float64"}, ()),  # of which the documentation has no dtypes
            ("torchvision::nms", {"float64"}, ()),
        ],
    )
    def test_dtypes_that_the_documentation_leaves_out(
        self, operator: str, dtypes: set[str], excluded: tuple[str, ...]
    ) -> None:
        assert excluded_dtypes(operator, dtypes) == excluded

    def test_the_source_is_named(self, table: OperatorTable) -> None:
        assert (table.torch_npu, table.torch, table.fallback) == ("2.13.0", "2.13.0", True)
        assert table.source["wheel"].startswith("torch_npu-2.13.0-")
        assert len(table.source["sha256"]) == 64
        assert table.source["licence"] == "BSD-3-Clause"

    @pytest.mark.parametrize("wanted", ["2.13", "2.13.0", "2"])
    def test_a_version_is_chosen_by_its_beginning(self, wanted: str) -> None:
        assert choose(wanted, None).startswith("2")

    @pytest.mark.parametrize("wanted", ["2.1", "13", "", "2.13.0.post9"])
    def test_a_version_without_a_table_is_an_error_that_names_those_there_are(self, wanted: str) -> None:
        with pytest.raises(SettingsError, match=rf"--torch-npu {wanted}: .*{available()[0]}"):
            choose(wanted, "2.13.0")

    @pytest.mark.parametrize("torch", ["2.13.1+cpu", "1.8.0", None])
    def test_by_default_it_is_that_for_torch_here_else_the_newest(self, torch: Optional[str]) -> None:
        assert choose(None, torch) == "2.13.0"


def record(operator: str, device: str = "npu", calls: int = 1, **more: Any) -> OperatorRecord:
    return OperatorRecord(f"aten::{operator}", device, calls=calls, phases={"forward": calls}, **more)


def trace(name: str, *records: OperatorRecord, device: str = "npu", code: int = 0, **more: Any) -> Trace:
    return Trace(name, device, code, 1, {(r.operator, r.device): r for r in records}, "2.13.0", **more)


MakePackage = Callable[[Mapping[str, str]], Path]

TABLE = OperatorTable(
    "2.13.0",
    "2.13.0",
    {"distribution": "torch_npu 2.13.0", "wheel": "w", "sha256": "0", "how": "h"},
    True,
    {"aten::relu": "kernel", "aten::t": "explicit", "aten::lgamma": "none", "aten::digamma": "none"},
)


class TestJudging:
    def test_every_status(self) -> None:
        on_cpu = trace("cpu", record("relu", "cpu", 2), record("bernoulli_", "cpu"), device="cpu")
        on_npu = trace("npu", record("relu", calls=2), record("t"), record("lgamma"), record("new_in_2_14"))
        comparison = judge("train.py", TABLE, (on_cpu, on_npu))
        assert [(row.operator[6:], row.status) for row in comparison.rows] == [
            ("lgamma", "missing"),
            ("new_in_2_14", "unknown"),
            ("t", "composite"),
            ("relu", "supported"),
            ("bernoulli_", "CPU only"),
        ]
        assert comparison.rows[3].calls == {"cpu": 2, "npu": 2}
        assert [row.operator for row in comparison.missing] == ["aten::lgamma"]
        assert not comparison.failed

    @pytest.mark.parametrize("fallback", [True, False])
    def test_a_missing_one_falls_back_unless_that_is_disabled(self, fallback: bool) -> None:
        comparison = judge("train.py", TABLE, (trace("npu", record("lgamma")),), fallback=fallback)
        (row,) = comparison.rows
        assert row.falls_back == fallback
        said = printing.missing_rows(comparison)[0][1]
        assert said == ("runs on the CPU" if fallback else "raises an error")

    @pytest.mark.parametrize(
        ("left", "handled_by", "said"),
        [
            (0, ("mine",), "handled by mine"),
            (0, (), "handled by patches (which ones is not known"),
            (1, ("mine",), "1 of 3 calls left with mine"),
            (3, ("mine",), "no patch changes that"),
        ],
    )
    def test_a_patch_handles_what_is_gone_with_it(self, left: int, handled_by: tuple[str, ...], said: str) -> None:
        before = trace("npu", record("lgamma", calls=3, patches=dict.fromkeys(handled_by, 3)))
        after = trace("npu with patches", *([record("lgamma", calls=left)] if left else []), record("relu"))
        comparison = judge("train.py", TABLE, (before,), patched=after)
        (row,) = comparison.rows
        assert row.handled == (left == 0)
        assert row.handled_by == (handled_by if left < 3 else ())
        assert printing.missing_rows(comparison)[0][3].startswith(said)
        assert [row.operator for row in comparison.missing] == ([] if left == 0 else ["aten::lgamma"])
        assert list(comparison.counts) == (["handled"] if left == 0 else ["missing"])

    def test_a_program_that_runs_with_patches_only_is_judged_with_them(self) -> None:
        before = trace("npu", record("lgamma"), record("relu"), code=1)
        after = trace("npu with patches", record("relu", calls=5), record("digamma"), record("t"))
        comparison = judge("train.py", TABLE, (before,), patched=after)
        assert {row.operator[6:]: row.outcome for row in comparison.rows} == {
            "lgamma": "handled",
            "digamma": "missing",
            "t": "composite",
            "relu": "supported",
        }
        assert not comparison.failed
        assert comparison.rows[-1].calls == {"npu": 1, "npu with patches": 5}
        assert "exit code 1 on npu;" in comparison.notes[0]

    def test_patches_that_fail_prove_nothing(self) -> None:
        comparison = judge(
            "train.py", TABLE, (trace("npu", record("lgamma")),), patched=trace("npu with patches", code=1)
        )
        assert comparison.rows[0].left is None
        assert [row.operator for row in comparison.missing] == ["aten::lgamma"]

    def test_a_program_that_leaves_the_npu_alone_is_judged_by_the_cpu_and_says_so(self) -> None:
        on_cpu = trace("cpu", record("relu", "cpu"), device="cpu")
        comparison = judge("train.py", TABLE, (on_cpu, trace("npu", record("relu", "cpu"))))
        assert (comparison.device, comparison.rows[0].status) == ("cpu", "supported")
        assert any(".to('npu')" in note for note in comparison.notes)

    def test_another_torch_is_noted(self) -> None:
        other = Trace("npu", "npu", 0, 1, {("aten::relu", "npu"): record("relu")}, "2.8.0")
        assert judge("train.py", TABLE, (other,)).notes == (
            "traced with torch 2.8.0, compared with a torch_npu for torch 2.13.0",
        )


class TestRecords:
    def test_the_first_few_are_told_apart_and_the_rest_is_counted(self) -> None:
        found = OperatorRecord("aten::relu", "cpu")
        for number in range(12):
            found.add("forward", ["float32"], f"[{number}]", f"a.py:{number % 2}")
        assert (found.calls, found.dtypes, found.sites) == (12, {"float32": 12}, {"a.py:0": 6, "a.py:1": 6})
        assert found.shapes == {**{f"[{number}]": 1 for number in range(8)}, OTHERS: 4}

    @given(st.lists(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 20), st.booleans())), max_size=4))
    def test_processes_add_up(self, processes: list[list[tuple[str, int, bool]]]) -> None:
        """Whatever each has seen, and in whatever order, no call is lost."""
        traces = []
        for number, calls in enumerate(processes):
            records: dict[str, OperatorRecord] = {}
            for operator, shape, inner in calls:
                found = records.setdefault(operator, OperatorRecord(operator, "cpu"))
                found.add("forward", [], f"[{shape}]", None, caller="x" if inner else None, raised=inner)
            traces.append(ProcessTrace(number, (), "2.13.0", tuple(records.values())))
        merged = merge(traces)
        everything = [call for calls in processes for call in calls]
        for (operator, _), found in merged.items():
            mine = [call for call in everything if call[0] == operator]
            assert found.total == len(mine) == sum(found.shapes.values()) == found.phases["forward"]
            assert found.inner == found.raised == sum(inner for _, _, inner in mine)
            assert len(found.shapes) <= 9
        assert sum(found.total for found in merged.values()) == len(everything)

    def test_files_come_back(self, tmp_path: Path) -> None:
        traces = [ProcessTrace(number, ("train.py",), None, (record("relu"),), 3) for number in (10, 9)]
        for written in traces:
            written.write(tmp_path)
        assert read_processes(tmp_path) == traces[::-1]


class TestPage:
    def test_a_comparison_is_shown_whole(self) -> None:
        one = record("lgamma", shapes={"[2, 3]": 1}, sites={"a.py:1": 1}, dtypes={"float32": 1})
        page = printing.make_page(judge("train.py", TABLE, (trace("npu", one),))).render()
        for text in ("aten::lgamma", "[2, 3], 1x", "a.py:1", "float32", "runs on the CPU", "1 missing"):
            assert text in page
        assert 'class="badge failed">missing<' in page
        assert 'class="command"' not in page

    def test_the_page_has_the_command_that_runs_the_script(self) -> None:
        comparison = judge("train.py", TABLE, (trace("npu", record("relu")),))
        page = printing.make_page(comparison, ("train.py", "--name", "a b")).render()
        assert '<code class="command">patchcore run --emulate-npu train.py --name &#39;a b&#39;</code>' in page


class TestProgram:
    def test_a_function_is_told_from_a_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "a:b").write_text("")
        (tmp_path / "train.py").write_text("")
        assert not Program("a:b").is_function
        assert not Program("C:\\train.py").is_function
        assert Program("train.py", ("--x",)).command("npu") == ("train.py", "--x")
        assert Program("pkg.train:main", ("1",)).command("npu")[-3:] == ("npu", "pkg.train:main", "1")

    def test_a_function_gets_the_device_it_asks_for(self, make_package: MakePackage) -> None:
        from npu_migrate.ops.calling import main

        make_package({"job": "said = []\ndef run(a, device='cpu'):\n    said.append((a, device))\n"})
        monkeypatch = pytest.MonkeyPatch()
        with monkeypatch.context() as context:
            context.setattr(sys, "argv", [])
            main(["npu", "job:run", "5"])
            assert sys.argv == ["job:run", "5"]
            with pytest.raises(SystemExit, match="job has no function 'walk'"):
                main(["npu", "job:walk"])
        assert sys.modules["job"].said == [("5", "npu")]


LIBRARY = """
import sys
frames = []

def deform_conv(x):
    return keep()

def keep():
    frames.append(sys._getframe())

class Function:
    @staticmethod
    def apply(x):
        return Function.forward(x)

    @staticmethod
    def forward(x):
        keep()

class Derived(Function):
    @staticmethod
    def forward(x):
        keep()
"""


class TestSites:
    @pytest.fixture
    def library(self, make_package: MakePackage) -> Any:
        import importlib

        self.folder = make_package({"zoo": "", "zoo.layers": LIBRARY})
        return importlib.import_module("zoo.layers")

    @pytest.mark.parametrize(
        ("call", "patches"),
        [
            (lambda library: library.deform_conv(1), ("dc",)),
            (lambda library: library.keep(), ()),
            (lambda library: library.Function.apply(1), ()),
            (lambda library: library.Derived.forward(1), ("function",)),  # its apply is replaced, which is inherited
        ],
        ids=["function", "other", "base class", "class"],
    )
    def test_which_patches_replace_what_a_call_was_made_in(
        self, library: Any, call: Callable[[Any], None], patches: tuple[str, ...]
    ) -> None:
        targets = {"dc": ["zoo.layers:deform_conv"], "function": ["zoo.layers:Derived.apply"], "x": ["absent.lib:f"]}
        call(library)
        site = Sites(Replaced(targets), self.folder).find(library.frames[-1])
        assert site.patches == patches
        assert site.line is not None
        assert site.line.startswith("zoo/layers.py:")

    def test_torch_and_the_standard_library_are_passed_over(self, library: Any, tmp_path: Path) -> None:
        import contextlib

        with contextlib.ExitStack() as stack:
            stack.callback(library.keep)
        frame: Optional[FrameType] = library.frames[-1].f_back
        assert frame is not None
        assert frame.f_code.co_filename == contextlib.__file__
        line = Sites(Replaced({}), tmp_path).find(frame).line
        assert line is not None
        assert line.startswith(__file__)

    def test_what_emulates_a_kernel_is_no_call_of_the_program(self, tmp_path: Path) -> None:
        namespace: dict[str, Any] = {"sys": sys}
        path = str(tmp_path / "npu_emulator" / "mx_driving" / "_sampling.py")
        (tmp_path / "npu_emulator" / "mx_driving").mkdir(parents=True)
        for folder in (tmp_path / "npu_emulator", tmp_path / "npu_emulator" / "mx_driving"):
            (folder / "__init__.py").touch()
        exec(compile("def sample():\n    return sys._getframe()\n", path, "exec"), namespace)
        assert Sites(Replaced({}), tmp_path).find(namespace["sample"]()).emulated


def test_excluded_dtypes_are_shown() -> None:
    calls = trace("npu", record("mm", dtypes={"float64": 2}, sites={"train.py:3": 2}), record("mm.out"))
    comparison = judge("train.py", OperatorTable.read("2.13.0"), (calls,))
    assert printing.excluded_rows(comparison) == [("aten::mm", "float64", "train.py:3")]
    shown = {row["operator"]: row["excluded_dtypes"] for row in printing.view(comparison)["operators"]}
    assert shown == {"aten::mm": ["float64"], "aten::mm.out": []}
    assert printing.EXCLUDED_TITLE in [table.title for table in printing.make_page(comparison).tables]
