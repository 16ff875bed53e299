"""Meta path finders that are put in front of patchcore's, and other ways past it: patched, or said; never silent."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import sys
import tempfile
from collections.abc import Iterator
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import Programs

import patchcore as pc
from patchcore.engine.engine import ENGINE

LIBRARY = {
    "leaf_x": "def price(): return 'original'",
    "lib_x": "from lib_x.ops import price",
    "lib_x.ops": "import fresh_x\ndef price(): return 'original'\ndef use(): return price()",
    "user_x": "from leaf_x import price as cost",
    "other_x": "def price(): return 'other'",
    "fresh_x": "",
    "next_x": "",
    "next_y": "",
}


def new() -> str:
    return "new"


LEAF = pc.Patch("leaf", [pc.Replace("leaf_x:price", new)])
LIB = pc.Patch("lib", [pc.Replace("lib_x.ops:price", new)])


class RewritingLoader(SourceFileLoader):
    """Changes a module's code, as typeguard's and jaxtyping's do."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        vars(module)["instrumented"] = True


class RewritingFinder(importlib.abc.MetaPathFinder):
    """Finds the modules of some packages through ``PathFinder``, past all other finders, as typeguard's does."""

    def __init__(self, *packages: str) -> None:
        self.packages = packages

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if self.packages and name.partition(".")[0] not in self.packages:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = RewritingLoader(spec.loader.name, spec.loader.path)
        return spec


@pytest.fixture
def hook(make_package: Any) -> Iterator[Callable[..., RewritingFinder]]:
    """Put a rewriting finder in front, as typeguard's ``install_import_hook`` does; take it away in the end."""
    make_package(LIBRARY)
    finders = []

    def install(*packages: str) -> RewritingFinder:
        finders.append(RewritingFinder(*packages))
        sys.meta_path.insert(0, finders[-1])
        return finders[-1]

    yield install
    for finder in finders:
        sys.meta_path.remove(finder)


def load(name: str) -> Any:
    return importlib.import_module(name)


# --- what a finder in front hides -----------------------------------------------------------------------------------


def test_a_library_is_patched_before_its_importer_goes_on(hook: Any) -> None:
    with pc.Patcher([LIB]) as patcher:
        hook("lib_x")
        lib = load("lib_x")
        assert lib.price is lib.ops.price is new
        assert lib.instrumented
        assert lib.ops.instrumented
        record = patcher.report()["lib"]
        assert (record.status, record.missed) == ("applied", False)
    assert lib.price() == lib.ops.price() == "original"


@pytest.mark.limit(
    "Another finder is put in front of patchcore's after apply (typeguard's, jaxtyping's), and finds a module that "
    "imports nothing new itself. The module is patched at the next import, not at its own.",
    told="reports (`pending`, later `patched late`, with the name of the finder), a warning, the summary of a run, "
    "`patchcore report` (exit code 1)",
)
def test_a_module_that_imports_nothing_is_reported_and_patched_at_the_next_import(hook: Any, caplog: Any) -> None:
    with pc.Patcher([LEAF]) as patcher:
        hook("leaf_x")
        user = load("user_x")  # not hidden, but what it imports is not there yet when it is found
        leaf = sys.modules["leaf_x"]
        record = patcher.report()["leaf"]
        if record.status == "pending":
            assert "RewritingFinder was put in front of patchcore's finder" in record.reason
            assert record.missed
            assert patcher.report().summary() == "1 pending; not patched on import: leaf"
            load("next_x")
        assert leaf.price is user.cost is new
        assert patcher.report()["leaf"].status == "applied"
    assert leaf.price() == user.cost() == "original"


@pytest.mark.parametrize("how", ["next import", "refresh", "another patch"])
def test_what_was_hidden_is_patched_late_and_the_report_says_so(hook: Any, caplog: Any, how: str) -> None:
    with pc.Patcher([LEAF]) as patcher:
        hook("leaf_x")
        leaf = load("leaf_x")
        assert leaf.price() == "original"
        record = patcher.report()["leaf"]
        assert (record.status, record.missed) == ("pending", True)
        assert "leaf_x was imported without patchcore seeing it" in record.reason
        if how == "next import":
            load("next_x")
        elif how == "refresh":
            patcher.refresh()
        else:
            with pc.Patcher([LIB]):
                load("lib_x")
        report = patcher.report()
        assert report["leaf"].status == "applied"
        assert report["leaf"].reason.startswith("patched late: leaf_x was imported without patchcore seeing it")
        assert report["leaf"].changes[0].missed == report["leaf"].reason
        assert report.summary() == "1 applied; not patched on import: leaf"
        assert "patch leaf was applied late" in caplog.text
        assert leaf.price is new
    assert leaf.price() == "original"


def test_imports_go_through_the_watch_again_after_one_that_passed_it(hook: Any) -> None:
    with pc.Patcher([LEAF, LIB]) as patcher:
        finder = hook("leaf_x", "lib_x")
        load("next_x")
        assert sys.meta_path[1] is finder
        assert load("leaf_x").price is load("lib_x").ops.price is new
        assert sys.modules["leaf_x"].instrumented
        assert not [record for record in patcher.report().patches if record.missed]


def test_another_patch_for_the_same_module_overtakes_the_finder(hook: Any) -> None:
    added = pc.Patch("added", [pc.Replace("leaf_x:added", new, create=True)])
    with pc.Patcher([LEAF]):
        hook("leaf_x")
        with pc.Patcher([added]) as patcher:
            leaf = load("leaf_x")
            assert leaf.price is leaf.added is new
            assert leaf.instrumented
            assert not patcher.report()["added"].missed


def test_asking_for_a_spec_moves_no_finder_and_patches_nothing(hook: Any) -> None:
    with pc.Patcher([LEAF]) as patcher:
        hook("leaf_x")
        leaf = load("leaf_x")
        before = list(sys.meta_path)
        importlib.util.find_spec("next_x")
        patcher.plan()
        assert sys.meta_path == before
        assert leaf.price() == "original"


def test_a_finder_that_finds_everything(hook: Any) -> None:
    """Nothing ever gets past it: only the report tells."""
    with pc.Patcher([LEAF, LIB]) as patcher:
        hook()
        assert load("leaf_x").price() == load("lib_x").price() == "original"
        load("next_x")
        report = patcher.report()
        assert [record.name for record in report.patches if record.missed] == ["leaf", "lib"]
        assert patcher.refresh()["lib"].status == "applied"
        assert sys.modules["lib_x"].price is sys.modules["leaf_x"].price is new
    assert sys.modules["lib_x"].price() == "original"


def test_two_finders_in_front_are_both_named(hook: Any) -> None:
    class Quiet:
        def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
            return None

    quiet = Quiet()
    with pc.Patcher([LEAF]) as patcher:
        hook("leaf_x")
        sys.meta_path.insert(0, quiet)
        try:
            load("leaf_x")
            reason = patcher.report()["leaf"].reason
            assert "Quiet" in reason
            assert "RewritingFinder" in reason
        finally:
            sys.meta_path.remove(quiet)


def test_a_patch_that_fails_late_fails_the_import_under_strict(hook: Any) -> None:
    patcher = pc.Patcher([pc.Patch("bad", [pc.Replace("leaf_x:prize", new)])], strict=True)
    patcher.apply()
    hook("leaf_x")
    load("leaf_x")
    with pytest.raises(pc.PatchError, match="leaf_x has no prize"):
        load("next_x")
    assert not patcher.applied


@pytest.mark.parametrize("rest", ["leaf", "body"])
def test_an_import_of_a_replaced_module(hook: Any, rest: str) -> None:
    replaced = "leaf_x" if rest == "leaf" else "lib_x.ops"
    with pc.Patcher([pc.Patch("other", [pc.ReplaceImport(replaced, with_="other_x")])]) as patcher:
        hook("leaf_x", "lib_x")
        load(replaced)
        assert patcher.report()["other"].status == "applied" or patcher.report()["other"].missed
        load("next_x")
        assert patcher.report()["other"].status == "applied"
        assert load(replaced).price() == "other"
    assert load(replaced).price() == "original"


def test_a_window_around_a_hidden_module_is_skipped(hook: Any) -> None:
    window = pc.WhileImporting("leaf_x", pc.Replace("other_x:price", new))
    with pc.Patcher([pc.Patch("window", [window])]) as patcher:
        hook("leaf_x")
        load("leaf_x")
        assert patcher.report()["window"].missed
        load("next_x")
        record = patcher.report()["window"]
        assert (record.status, record.missed) == ("skipped", False)
        assert "leaf_x is already imported" in record.reason


# --- other ways past the watch --------------------------------------------------------------------------------------


def by_hand(name: str) -> ModuleType:
    made = ModuleType(name)
    made.__dict__["price"] = lambda: "original"
    sys.modules[name] = made
    return made


def executed_by_hand(name: str) -> ModuleType:
    file = PathFinder.find_spec(name).origin
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def with_meta_path_put_back(name: str) -> Any:
    """Import with a copy of ``sys.meta_path`` from before the patch, as pytester puts it back."""
    ours = list(sys.meta_path)
    sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not ENGINE.watch]
    try:
        return load(name)
    finally:
        sys.meta_path[:] = ours


def loaded_by_a_loader(name: str) -> Any:
    return PathFinder.find_spec(name).loader.load_module(name)


WAYS = [by_hand, executed_by_hand, with_meta_path_put_back, loaded_by_a_loader]


@pytest.mark.filterwarnings("ignore:the load_module")
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_other_ways_past_the_watch_are_reported_and_patched_on_request(make_package: Any, way: Any) -> None:
    make_package(LIBRARY)
    with pc.Patcher([LEAF]) as patcher:
        module = way("leaf_x")
        record = patcher.report()["leaf"]
        assert (record.status, record.missed) == ("pending", True)
        assert "other code put it into sys.modules, or imported it with another sys.meta_path" in record.reason
        assert record.reason.endswith("; Patcher.refresh() tries to patch it now")
        assert patcher.refresh()["leaf"].status == "applied"
        assert module.price is new
    assert module.price() == "original"


def test_a_finder_of_patchcore_that_was_removed_is_reported(make_package: Any) -> None:
    make_package(LIBRARY)
    with pc.Patcher([LEAF]) as patcher:
        sys.meta_path.remove(ENGINE.watch)
        load("leaf_x")
        assert "other code removed patchcore's finder from sys.meta_path" in patcher.report()["leaf"].reason
        assert patcher.refresh()["leaf"].status == "applied"


def test_a_module_that_has_no_patch_left_to_wait_is_nothing_to_report(make_package: Any) -> None:
    make_package(LIBRARY)
    with pc.Patcher([LEAF]) as patcher:
        load("leaf_x")
        sys.modules["leaf_x"] = ModuleType("leaf_x")
        assert not patcher.report()["leaf"].missed


PATCHES = """
import patchcore as pc

@pc.hookimpl
def register_patches():
    return [pc.Patch("leaf", pc.Replace("leaf_x:price", lambda: "new"))]
"""
PROGRAM = """
import importlib.machinery, sys
class Front:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return importlib.machinery.PathFinder.find_spec(name, path) if name == "leaf_x" else None
sys.meta_path.insert(0, Front)
import leaf_x
print(leaf_x.price())
if len(sys.argv) > 1:
    import next_x
    print(leaf_x.price())
"""


@pytest.mark.parametrize("later", [False, True], ids=["never", "late"])
def test_a_run_says_so_and_its_report_has_a_finding(programs: Programs, later: bool) -> None:
    modules = {f"{name}.py": LIBRARY[name] for name in ("leaf_x", "next_x")}
    programs.write({**modules, "patches.py": PATCHES, "train.py": PROGRAM})
    more = ["later"] if later else []
    done = programs.run(programs.patchcore, "-p", "patches", "--report-dir", "out", "train.py", *more)
    assert done.stdout.split() == (["original", "new"] if later else ["original"])
    status = "applied" if later else "pending"
    assert done.stderr.splitlines()[-1] == f"patchcore: 1 {status}; not patched on import: leaf"
    report = programs.run([*programs.patchcore[:-1], "report"], "out", "--format", "json", code=1)
    (finding,) = json.loads(report.stdout)["findings"]
    assert (finding["kind"], finding["subject"]) == ("late", "patch leaf")
    assert "leaf_x was imported without patchcore seeing it: __main__.Front was put in front" in finding["message"]
    assert finding["message"].startswith("patched late: ") is later


# --- asking changes nothing -----------------------------------------------------------------------------------------

QUESTIONS: dict[str, Callable[[pc.Patcher], Any]] = {
    "report": lambda patcher: patcher.report(),
    "unreachable": lambda patcher: patcher.report(unreachable=True).summary(),
    "text": lambda patcher: str(patcher.report()),
    "json": lambda patcher: patcher.report().to_json(),
    "plan": lambda patcher: str(patcher.plan()),
    "applied plan": lambda patcher: str(patcher.applied_plan),
    "collect": lambda patcher: [candidate.patch for candidate in patcher.collect()],
}
STEPS = [f"{word} {name}_x" for word in ("hook", "load") for name in ("leaf", "lib", "other", "next")]
STEPS += ["hand leaf_x", "remove finder"]


def everything(patcher: pc.Patcher) -> Any:
    """Return what asking may not change: the journal, the engine, the modules, the finders."""
    states = [
        (application, {key: repr(value) for key, value in vars(state).items()})
        for application in patcher._applications.values()
        for state in application.states
    ]
    journal = [(r.slot.name, id(r.top), list(r.followers), len(r.layers)) for r in ENGINE.journal]
    engine = {name: list(found) for name, found in ENGINE._waiting.items()}, dict(ENGINE._executed)
    watch = dict(ENGINE.watch._watched), list(ENGINE.watch.overtaken)
    return states, journal, engine, watch, dict(sys.modules), list(sys.meta_path)


@settings(max_examples=60)
@given(
    steps=st.lists(st.sampled_from(STEPS), max_size=6),
    asked=st.lists(st.sampled_from(sorted(QUESTIONS)), min_size=1, max_size=5),
)
def test_reports_and_plans_change_nothing(steps: Any, asked: Any) -> None:
    patches = [LEAF, LIB, pc.Patch("other", [pc.ReplaceImport("other_x", with_="fresh_x")])]
    before = list(sys.meta_path)
    with pytest.MonkeyPatch.context() as monkeypatch:
        folder = tempfile.TemporaryDirectory()
        for name, source in LIBRARY.items():
            inner = any(other.startswith(f"{name}.") for other in LIBRARY)
            path = Path(folder.name, *name.split("."), *(("__init__",) if inner else ())).with_suffix(".py")
            path.parent.mkdir(exist_ok=True)
            path.write_text(source)
        monkeypatch.syspath_prepend(folder.name)
        importlib.invalidate_caches()
        for question in QUESTIONS.values():  # what these import themselves is not to count
            question(pc.Patcher(patches))
        try:
            with pc.Patcher(patches) as patcher:
                for step in steps:
                    word, _, name = step.partition(" ")
                    if word == "hook":
                        sys.meta_path.insert(0, RewritingFinder(name))
                    elif word == "remove" and ENGINE.watch in sys.meta_path:
                        sys.meta_path.remove(ENGINE.watch)
                    elif word == "hand":
                        by_hand(name)
                    elif word == "load":
                        load(name)
                first = {name: QUESTIONS[name](patcher) for name in QUESTIONS}
                state = everything(patcher)
                for name in asked:
                    assert QUESTIONS[name](patcher) == first[name]
                    assert everything(patcher) == state
                for record in patcher.report().patches:
                    loaded = record.changes[0].target.partition(":")[0] in sys.modules
                    assert record.status == "applied" or record.missed is loaded
        finally:
            sys.meta_path[:] = before
            for name in [name for name in sys.modules if name.partition(".")[0] in LIBRARY]:
                del sys.modules[name]
            folder.cleanup()
