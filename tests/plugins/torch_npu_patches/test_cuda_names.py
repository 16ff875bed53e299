"""Lines that compare something with ``"cuda"``: what they are for CUDA, an NPU and anything else; without torch."""

from __future__ import annotations

import ast
import json
import re
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import patchcore as pc
from torch_npu_patches.cuda_names import LIBRARIES, PROGRAM, branches, lines, reporting, running, scope
from torch_npu_patches.cuda_names.__main__ import main
from torch_npu_patches.cuda_names.editing import edit, edit_script, find

HALF = "torch.npu.HalfTensor"

SAMPLES = Path(__file__).resolve().parents[2] / "migrate_samples"


@pytest.fixture(autouse=True)
def no_lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(lines, "LINES", {})
    running.COUNTS.clear()
    yield
    running.COUNTS.clear()


class Answering(str):
    """A text that compares in its own way."""

    def __eq__(self, other: object) -> Any:
        return f"{self} == {other}"

    def __ne__(self, other: object) -> Any:
        return f"{self} != {other}"

    __hash__ = str.__hash__


class Device(SimpleNamespace):
    """A device as torch has it."""

    def __init__(self, type: str) -> None:
        super().__init__(type=type)

    def __str__(self) -> str:
        return str(self.type)


def edited(text: str) -> tuple[ast.Module, set[int]]:
    text = textwrap.dedent(text)
    tree = ast.parse(text)
    source = pc.Source("m", "m.py", text, find(text))
    found = edit(tree, source)
    lines.keep(source.file, source.notes)
    return tree, found


def run(text: str, **names: Any) -> dict[str, Any]:
    """Run a source after the edit, with what it needs, and return its names."""
    tree, _ = edited(text)
    name_of = pc.Source("m", "m.py", text).reference
    space: dict[str, Any] = {
        name_of(f"{running.__name__}:{name}").id: getattr(running, name) for name in running.__all__
    }
    exec(compile(tree, "m.py", "exec"), {**space, **names}, names)
    return names


def answer(expression: str, device: Any) -> Any:
    return run(f"answer = ({expression})", d=device)["answer"]


class TestExpressions:
    @pytest.mark.parametrize(
        ("expression", "npu", "cuda", "cpu"),
        [
            ('d == "cuda"', True, True, False),
            ('"cuda" == d', True, True, False),
            ('d != "cuda"', False, False, True),
            ('d in ("cuda", "xpu")', True, True, False),
            ('d in ["cuda"]', True, True, False),
            ('d in {"cuda", "mps"}', True, True, False),
            ('d not in ("cuda",)', False, False, True),
            ('d.startswith("cuda")', True, True, False),
            ('d.startswith(("cuda", "xpu"))', True, True, False),
            ('"cuda" in d', True, True, False),
            ('"cuda" not in d', False, False, True),
            ('"cuda" in [d, "cpu"]', True, True, False),
            ('{"cuda": 1, "cpu": 2}[d]', 1, 1, 2),
            ('{"cuda": 1, "cpu": 2}.get(d, 3)', 1, 1, 2),
            ('"fast" if d == "cuda" else "slow"', "fast", "fast", "slow"),
            ('not d == "cuda" or d is None', False, False, True),
            ('[n for n in (d,) if n == "cuda"]', ["npu"], ["cuda"], []),
            ('(lambda n: n == "cuda")(d)', True, True, False),
        ],
    )
    def test_devices(self, expression: str, npu: Any, cuda: Any, cpu: Any) -> None:
        assert [answer(expression, device) for device in ("npu", "cuda", "cpu")] == [npu, cuda, cpu]

    @pytest.mark.parametrize(
        ("expression", "right", "wrong"),
        [
            ('d == "cuda:0"', ["npu:0", "cuda:0"], ["npu", "npu:1", "cuda"]),
            ('d == f"cuda:{1}"', ["npu:1", "cuda:1"], ["npu:0", "npu"]),
            ('d in ("cuda:0", "cuda:1")', ["npu:0", "npu:1", "cuda:1"], ["npu:2", "npu"]),
            ('d.startswith("cuda")', ["npu:3"], ["cpu:0"]),
            ('"cuda" in d', ["npu:3", "/data/cuda"], ["/data/npu_files", "npu_x", "input"]),
            ('d.startswith("cuda:")', ["npu:3", "cuda:1"], ["npu", "cpu:0"]),
            ('d.startswith(("xpu:", "cuda:"))', ["npu:3", "cuda:1"], ["npu", "cpu:0"]),
            ('"cuda:" in d', ["npu:3", "cuda:1"], ["npu", "npu:x"]),
            ('{"cuda:0": 1, "cpu": 2}.get(d)', ["npu:0"], ["npu:1"]),
            ('d == "torch.cuda.HalfTensor"', [HALF, "torch.cuda.HalfTensor"], ["torch.npu.FloatTensor", "npu"]),
            ('not d != "torch.cuda.HalfTensor"', [HALF], ["torch.HalfTensor"]),
            ('d in ["torch.cuda.HalfTensor", "torch.cuda.BFloat16Tensor"]', [HALF], ["torch.npu.FloatTensor"]),
            ('"cuda" in d', [HALF, "torch.cuda.HalfTensor"], ["torch.HalfTensor", "torch.npu_files"]),
            ('"torch.cuda" in d', [HALF], ["npu", "torch.HalfTensor"]),
            ('d.startswith("torch.cuda")', [HALF], ["npu", "torch.HalfTensor"]),
            ('d.startswith("torch.cuda.")', [HALF], ["npu", "torch.HalfTensor"]),
        ],
    )
    def test_numbers_and_other_texts(self, expression: str, right: list[str], wrong: list[str]) -> None:
        assert all(answer(expression, device) for device in right)
        assert not any(answer(expression, device) for device in wrong)

    def test_what_compares_in_its_own_way_still_does(self) -> None:
        class Column:
            def __eq__(self, other: object) -> Any:
                return ["compared with", other]

            __hash__ = None  # type: ignore[assignment]

            def startswith(self, text: str) -> str:
                return f"starts with {text}"

        assert answer('d == "cuda"', Column()) == ["compared with", "cuda"]
        assert answer('d.startswith("cuda")', Column()) == "starts with cuda"
        assert answer('"cuda" in d', {"npu": 1}) is False  # d["cuda"] is an error
        with pytest.raises(AttributeError, match="startswith"):
            answer('d.startswith("cuda")', None)
        with pytest.raises(TypeError):
            answer('"cuda" in d', None)

    @pytest.mark.parametrize(
        ("expression", "right", "wrong"),
        [
            ("d.type == KIND", ["cuda", "npu"], ["cpu", "npu:1"]),
            ("d.type != self.kind", ["cpu"], ["cuda", "npu"]),
            ("number == d.type", ["cuda:1", "npu:1"], ["cuda", "npu:0"]),
            ("str(d.type) == number", ["cuda:1", "npu:1"], ["npu"]),
            ("(d.type\n == KIND)", ["npu"], ["cpu"]),
        ],
    )
    def test_names_that_are_given_a_device(self, expression: str, right: list[str], wrong: list[str]) -> None:
        given = 'KIND = "cuda"\nself.kind: str = "cuda"\ndef f(number="cuda:1"): return number\nnumber = f()\n'
        for text in (*right, *wrong):
            space = {"d": SimpleNamespace(type=text), "self": SimpleNamespace()}
            assert run(f"{given}answer = ({expression})", **space)["answer"] is (text in right), text

    def test_names_that_turn_out_to_be_something_else(self) -> None:
        array = SimpleNamespace(type=Answering("array"))
        source = 'kind = "cuda"\nkind = other\nfound = (d.type == kind, d.type != kind)\n'
        assert run(source, d=array, other="cuda")["found"] == ("array == cuda", "array != cuda")
        assert run(source, d=SimpleNamespace(type="cpu"), other="cpu")["found"] == (True, False)
        assert running.COUNTS == {}

    @pytest.mark.parametrize(
        ("expression", "right", "wrong"),
        [
            ("x.device.type == device.type", ["cuda", "npu"], ["cpu", "npu:1"]),
            ("x.device.type != self.device.type", ["cpu"], ["cuda", "npu"]),
            ("self.kind() == x.device.type", ["cuda", "npu"], ["cpu"]),
            ("torch_device(x).type == self.other", ["cuda", "npu"], ["cpu"]),
            ("str(x.device.type) == str(self.device)", ["cuda", "npu"], ["cpu", "cuda:0"]),
            ("(x.DEVICE.type ==\n device.type)", ["npu"], ["cpu"]),
            ("(x.device\n .type ==\n device.type)", ["npu"], ["cpu"]),
        ],
    )
    def test_devices_of_two_objects(self, expression: str, right: list[str], wrong: list[str]) -> None:
        """``torch.device("cuda")`` of a configuration, and the device of a tensor."""
        cuda = Device("cuda")
        owner = SimpleNamespace(device=cuda, kind=lambda: "cuda", other="cuda")
        for text in (*right, *wrong):
            x = SimpleNamespace(device=Device(text), DEVICE=Device(text))
            names = {"x": x, "device": cuda, "self": owner, "torch_device": lambda x: x.device}
            assert run(f"answer = ({expression})", **names)["answer"] is (text in right), text
        assert sum(running.COUNTS.values()) == len(right) + len(wrong)

    @pytest.mark.parametrize(
        "source",
        [
            'x.device.type == "cpu"',
            '"mps" != x.device.type',
            "token.type == other.type",
            "x.device.type is y.device.type",
            "a.device.type == b.device.type == c.device.type",
            "str(a) == str(b)",
        ],
    )
    def test_other_comparisons_of_types_stay(self, source: str) -> None:
        assert edited(source)[1] == set()

    @pytest.mark.parametrize(
        "source", ['k = "cuda"\nd.type == other', 'k = "cuda"\nd.size == k', 'k == "cpu"\nd.type == k']
    )
    def test_other_names_stay(self, source: str) -> None:
        assert edited(source)[1] == set()

    def test_a_value_is_computed_once(self) -> None:
        calls: list[int] = []

        def device() -> str:
            calls.append(1)
            return "npu"

        assert run('x = device() == "cuda", device() != "cuda", device() in ("cuda",)', device=device)["x"] == (
            True,
            False,
            True,
        )
        assert len(calls) == 3

    @pytest.mark.skipif(sys.version_info < (3, 10), reason="match is new in Python 3.10")
    def test_match(self) -> None:
        source = """
            def which(d, ok=True):
                match d:
                    case "cuda" if not ok: return "guarded"
                    case "cuda" | "xpu": return "gpu"
                    case ["cuda", n]: return n
                    case _: return "other"
        """
        which = run(source)["which"]
        assert [which(d) for d in ("npu", "cuda", "xpu", "cpu")] == ["gpu", "gpu", "gpu", "other"]
        assert (which("npu", False), which(["npu", 3]), which(["cpu", 3])) == ("guarded", 3, "other")

    @pytest.mark.parametrize(
        "source",
        [
            'x = "cuda"',
            'f("cuda", device="cuda")',
            '{"cuda": 1, "model": 2}',
            '{"cuda": 1, **others}',
            '"cuda" == "cuda"',
            'x = d.startswith("cuda", 2)',
            'x == "cudagraphs"',
            "x == b'cuda'",
            'path.endswith("cuda")',
        ],
    )
    def test_other_uses_of_the_word_stay(self, source: str) -> None:
        tree, found = edited(source)
        assert not found
        assert ast.dump(tree) == ast.dump(ast.parse(source))


class TestLeftAlone:
    @pytest.mark.parametrize(
        "knows",
        ["is_torch_npu_available()", "torch.npu.is_available()", 'd == "npu"', "import torch_npu", "ascend_only()"],
    )
    def test_a_function_that_names_npus_itself(self, knows: str) -> None:
        source = f'def f(d):\n    {knows}\n    return d == "cuda"\ndef g(d, inputs):\n    return d == "cuda"\n'
        _, found = edited(source)
        assert found == {5}
        alone = [line for line in lines.found() if line.why]
        assert [(line.line, line.before, line.why) for line in alone] == [
            (3, 'd == "cuda"', "its function names npu itself")
        ]

    def test_methods_decide_for_themselves_and_chains_are_left(self) -> None:
        source = """
            class Device:
                def a(self, d): return d == "npu" or d == "cuda"
                def b(self, d): return d == "cuda"
                def c(self, a, b): return a == b == "cuda"
                def d(self, a, b): return a.device.type == b.device.type == self.kind
                def e(self, a, b): return a in ("cuda", "xpu") == b
                def f(self, a, b, kind="cuda"): return a == b.type == kind
        """
        assert edited(source)[1] == {4}
        assert {line.line: line.why for line in lines.found() if line.why} == {
            3: "its function names npu itself",
            **dict.fromkeys((5, 6, 7, 8), "it is a chain of comparisons"),
        }


class TestReports:
    def test_lines_that_ran_are_counted(self) -> None:
        run('def f(d):\n    return d == "cuda"\ndef g(d):\n    return d == "cuda"\nf("npu"), f("cpu")\n')
        section = next(reporting.sections())
        assert section.title == 'Lines that compare with "cuda"'
        assert section.lines == (
            'm.py:2: d == "cuda" -> d in ("cuda", "npu"), 2x',
            'm.py:4: d == "cuda" -> d in ("cuda", "npu"), 0x',
        )
        assert list(reporting.describe()) == ['1 line compares with "cuda" and held for NPUs, too']

    def test_lines_of_installed_packages_that_did_not_run_are_counted_only(self) -> None:
        left_alone = (4, "a", "", "its function names npu itself", False)
        lines.keep("/x/site-packages/lib.py", [(3, "a", "b", "", False), left_alone])
        lines.keep("/x/program.py", [(5, "a", "", "it is a chain of comparisons", False)])
        assert next(reporting.sections()).lines == (
            "/x/program.py:5: a: left alone, it is a chain of comparisons",
            "in installed packages besides: 1 line edited that did not run, 1 line left alone",
        )

    def test_nothing_where_nothing_compares(self) -> None:
        assert list(reporting.sections()) == list(reporting.describe()) == []


def test_a_later_process_has_the_same_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_python: Callable[..., str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    package = tmp_path / "site-packages" / "crate"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "plain.py").write_text('def plain(d):\n    return d == "cuda"\n')
    (package / "own.py").write_text('def knows(d):\n    return 3 if d == "npu" else d == "cuda"\n')
    (tmp_path / "main.py").write_text('def kind(d):\n    return d in ("cpu", "cuda")\n')
    program = f"""
        import os, sys
        sys.path += [{str(package.parent)!r}, {str(tmp_path)!r}]
        import patchcore as pc
        from torch_npu_patches import cuda_names
        from torch_npu_patches.cuda_names import editing, lines
        if sys.argv[1:] == ["later"]:
            editing._Editor.edit = None
        rules = (cuda_names.PROGRAM, cuda_names.LIBRARIES)
        patches = [pc.Patch(f"p{{n}}", [pc.Rewrite("*", each)]) for n, each in enumerate(rules)]
        with pc.Patcher(patches, strict=True):
            import crate.plain, crate.own, main
            print(crate.plain.plain("npu"), crate.own.knows("cpu"), main.kind("npu"))
            print(*map(str, lines.found()), sep="\\n", flush=True)
            if sys.argv[1:] == ["later"]:
                os._exit(0)  # a revert of one patch edits anew for the other
    """
    (tmp_path / "run.py").write_text(textwrap.dedent(program))
    first = run_python(tmp_path / "run.py")
    assert first.startswith("True False True\n")
    assert first.count("1x\n") == 2
    assert first.count("left alone, its function names npu itself") == 1
    assert run_python(tmp_path / "run.py", "later") == first


def test_which_modules() -> None:
    program, library = "/home/me/train.py", "/env/lib/python3.11/site-packages/timm/layers.py"
    assert scope.is_program("train", program)
    assert not scope.is_library("train", program)
    assert scope.is_library("timm.layers", library)
    assert not scope.is_program("timm.layers", library)
    for name in ("torch.nn", "torch_npu", "patchcore.x", "npu_emulator"):
        assert not scope.is_library(name, library)
        assert not scope.is_program(name, program)
    assert not scope.is_program("json", ast.__file__)
    assert PROGRAM.concerns is scope.is_program
    assert LIBRARIES.concerns is scope.is_library


class TestScriptsOfTorch:
    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ('x.device.type == "cuda"', 'x.device.type in ["cuda", "npu"]'),
            ('"cuda" != x', 'x not in ["cuda", "npu"]'),
            ('x == f"cuda:{n}"', 'x in [f"cuda:{n}", f"npu:{n}"]'),
            ('x in ["cuda"]', 'x in ["cuda", "npu"]'),
            ('"cuda" in str(x)', '"cuda" in str(x) or "npu" in str(x)'),
            ('"cuda:" not in x', '"cuda:" not in x and "npu:" not in x'),
            ('x.s.startswith("cuda")', 'x.s.startswith("cuda") or x.s.startswith("npu")'),
            ('{"cuda": 1, "cpu": 0}[x]', '{"cuda": 1, "cpu": 0, "npu": 1}[x]'),
            ("x.type == self.kind", 'x.type.replace("cuda", "npu") == self.kind.replace("cuda", "npu")'),
            (
                "x.device.type != y.device.type",
                'x.device.type.replace("cuda", "npu") != y.device.type.replace("cuda", "npu")',
            ),
        ],
    )
    def test_an_expression(self, before: str, after: str) -> None:
        function = f"def f(self, x, n):\n    return {before}"
        tree = ast.parse(function)
        assert edit_script(tree, f"    {function}".replace("\n", "\n    "), 'class C:\n    kind = "cuda"')
        assert ast.unparse(tree).split("return ")[1].replace("'", '"') == after

    def test_a_function_that_names_npus_is_left_alone(self) -> None:
        function = 'def f(x):\n    return x.is_npu or x.device.type == "cuda"'
        assert not edit_script(ast.parse(function), function, "")

    def test_an_npu_that_another_patch_has_put_there_is_none_of_the_functions(self) -> None:
        function = 'def f(x):\n    return x.to("cuda") if x.device.type == "cuda" else x'
        assert edit_script(ast.parse(function.replace('to("cuda")', 'to("npu")')), function, "")


BRANCHES = """
import torch
FOUND = "npu" if torch.cuda.is_available() else "cpu"
class State:
    def device(self):
        return [self.of(torch.cuda.is_available(), "npu") for _ in (1,)]
def is_torch_cuda_available():
    return torch.cuda.is_available()
def fused():
    return torch.cuda.is_available() and input() == "cuda"
def npu_first(device):
    return "npu" if is_npu_available() else torch.cuda.is_available() or device == "cuda"
def affinity():
    if torch.cuda.is_available():
        import pynvml
"""


def test_cuda_is_hidden_from_functions_that_name_npus() -> None:
    tree = ast.parse(BRANCHES)
    source = pc.Source("m", "m.py", BRANCHES, sorted({*find(BRANCHES), *branches.find(BRANCHES)}))
    edit(tree, source)  # what it puts into a function names npu, and the function does not
    assert branches.edit(tree, source) == {6, 8, 12, 14}
    lines.keep(source.file, source.notes)
    assert [line.line for line in lines.found() if line.hides] == [6, 8, 12, 14]
    assert ast.unparse(tree).count("torch.cuda.is_available()") == 2


def test_lines_of_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in ("peft", "of_another_library"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("from x import is_npu_available\n" + BRANCHES)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["--format", "json", "peft", "of_another_library"]) == 0
    rows = json.loads(capsys.readouterr().out)
    found = [(row["package"][0], row["function"], row["edited"]) for row in rows if "is_available" in row["source"]]
    functions = ("State.device", "is_torch_cuda_available", "npu_first", "affinity")
    assert found == [("p", name, True) for name in functions] + [("o", name, False) for name in functions]


COMPARISON = re.compile(
    r"""([=!]=\s*["']cuda|["']cuda[^"']*["']\s*[=!]=|startswith\(["']cuda|\bin\s*[(\[{].*["']cuda)"""
)


@pytest.mark.parametrize("folder", sorted(path.parent for path in SAMPLES.rglob("input.py")), ids=lambda f: f.name)
def test_comparisons_that_migrate_writes_are_edited_at_run_time(folder: Path) -> None:
    """``migrate`` writes ``"npu"`` for ``"cuda"`` in the source, or names the line: both find the same comparisons."""
    _, found = edited((folder / "input.py").read_text(encoding="utf-8"))
    left = {line.line for line in lines.found() if line.why}
    assert migrated((folder / "expected.diff").read_text(encoding="utf-8")) <= found | left
    findings = json.loads((folder / "findings.json").read_text(encoding="utf-8"))
    assert found <= {int(place.partition(":")[0]) for place, *_ in findings}


def test_samples_have_comparisons() -> None:
    assert sum(len(migrated(path.read_text(encoding="utf-8"))) for path in SAMPLES.rglob("expected.diff")) >= 3


def migrated(diff: str) -> set[int]:
    """Return the numbers of the lines of the source in which a diff changes a comparison."""
    found, number = set(), 0
    for line in diff.split("\n"):
        if line.startswith("@@"):
            number = int(line.split("-")[1].split(",")[0].split(" ")[0]) - 1
        elif not line.startswith(("+", "---")):
            number += 1
            if line.startswith("-") and COMPARISON.search(line):
                found.add(number)
    return found


def test_a_long_module_is_searched_in_little_time() -> None:
    """Its words must not be tried one by one for a name that is given the text of a device."""
    text = "some_long_name_of_a_function(another_argument, yet_another_one) + 1\n" * 20_000 + 'KIND = "cuda"\n'
    started = time.process_time()
    assert 20_002 in find(text + "ok = d.type == KIND\n")
    assert time.process_time() - started < 0.5
