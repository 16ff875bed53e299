"""Folders without ``__init__.py`` inside packages, while nothing around them is imported."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import patchcore as pc
from patchcore.objects.modules import (
    find_module,
    found_spec,
    missing_ancestor,
    module_file,
    search_path,
    submodule_names,
)

NESTED = {"projects_x.ops.real": "def price(): return 'original'\ndef label(): return 'label'"}


def new() -> str:
    return "new"


def patch_of(*changes: Any, **more: Any) -> pc.Patch:
    return pc.Patch("projects.patch", list(changes), **more)


# --- every layout answers as the import system does -----------------------------------------------------------------

NAMES = ["a_x", "a_x.b", "a_x.c", "a_x.b.c", "a_x.b.d", "a_x.b.c.d", "a_x.b.c.e"]
NOT_THERE = ["a_x.no", "a_x.b.no", "a_x.b.c.no", "a_x.b.c.d.no", "a_x.no.no"]


def write_tree(folder: Path, modules: set[str], regular: set[str], *, archive: bool) -> str:
    """Write ``modules``, those of ``regular`` as packages with ``__init__.py``; return the entry of ``sys.path``."""
    files = {}
    for name in modules:
        path = name.replace(".", "/")
        inner = any(other.startswith(f"{name}.") for other in modules)
        if not inner:
            files[f"{path}.py"] = ""
        elif name in regular:
            files[f"{path}/__init__.py"] = ""
    if archive:
        with zipfile.ZipFile(folder.with_suffix(".zip"), "w") as target:
            folders = {f"{parent}/" for name in files for parent in map(str, Path(name).parents) if parent != "."}
            for name in sorted(folders):
                target.writestr(name, "")
            for name in files:
                target.writestr(name, "")
        return str(folder.with_suffix(".zip"))
    for name in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return str(folder)


def loaded_here() -> set[str]:
    return {name for name in sys.modules if name.partition(".")[0] == "a_x"}


def forget() -> None:
    for name in loaded_here():
        del sys.modules[name]


def closed(names: set[str]) -> set[str]:
    """Return ``names`` with the packages around them."""
    return {".".join(parts[: i + 1]) for parts in (name.split(".") for name in names) for i in range(len(parts))}


def like_importlib(name: str) -> Any:
    """Return origin and locations of a module as ``importlib.util.find_spec`` has them, which imports its parents."""
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None
    return spec and (spec.origin, spec.submodule_search_locations and sorted(spec.submodule_search_locations))


TREES = st.tuples(st.sets(st.sampled_from(NAMES)).map(closed), st.sets(st.sampled_from(NAMES)), st.booleans())


@settings(max_examples=60)
@given(
    trees=st.lists(TREES, min_size=1, max_size=2),
    loaded=st.sets(st.sampled_from(NAMES)),
    removed=st.sets(st.sampled_from(NAMES)),
)
def test_a_module_is_found_where_the_import_system_would_find_it(trees: Any, loaded: Any, removed: Any) -> None:
    """In folders and archives, under packages of both kinds, imported, not imported, or removed again."""
    with tempfile.TemporaryDirectory() as folder:
        entries = [
            write_tree(Path(folder, f"tree{number}"), modules, regular, archive=archive)
            for number, (modules, regular, archive) in enumerate(trees)
        ]
        before = list(sys.path)
        sys.path[:0] = entries
        importlib.invalidate_caches()
        try:
            for name in sorted(loaded):
                if like_importlib(name) is not None:
                    importlib.import_module(name)
            for name in removed:
                sys.modules.pop(name, None)
            there = loaded_here()
            found = {name: found_spec(name) for name in [*NAMES, *NOT_THERE] if name not in sys.modules}
            answers = {name: find_module(name) for name in [*NAMES, *NOT_THERE]}
            assert loaded_here() == there
            forget()
            for name, answer in answers.items():
                expected = like_importlib(name)
                assert answer is (expected is not None), name
                if name in found:
                    spec = found[name]
                    got = spec and (
                        spec.origin,
                        spec.submodule_search_locations and sorted(spec.submodule_search_locations),
                    )
                    assert got == expected, name
        finally:
            sys.path[:] = before
            forget()
            for entry in entries:
                sys.path_importer_cache.pop(entry, None)


def test_everything_that_looks_at_modules_looks_into_nested_namespace_packages(make_package: Any) -> None:
    folder = make_package(NESTED)
    assert module_file("projects_x.ops.real") == str(folder / "projects_x" / "ops" / "real.py")
    assert missing_ancestor("projects_x.ops.real") is None
    assert missing_ancestor("projects_x.ops.nope.deeper") == "projects_x.ops.nope"
    assert list(search_path("projects_x.ops")) == [str(folder / "projects_x" / "ops")]
    assert submodule_names("projects_x.ops") == ["projects_x.ops.real"]
    assert not [name for name in sys.modules if name.startswith("projects_x")]


def test_a_loaded_namespace_package_whose_parent_was_removed(make_package: Any) -> None:
    make_package(NESTED)
    importlib.import_module("projects_x.ops")
    del sys.modules["projects_x"]
    assert find_module("projects_x.ops.real")
    assert missing_ancestor("projects_x.ops.nope") == "projects_x.ops.nope"


class Delegating:
    """A finder that leaves the search to ``PathFinder``, as pytest's, typeguard's and jaxtyping's do."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return importlib.machinery.PathFinder.find_spec(name, path, target)


def test_another_finder_in_front_that_asks_the_path_finder(make_package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    make_package(NESTED)
    monkeypatch.setattr(sys, "meta_path", [Delegating(), *sys.meta_path])
    assert find_module("projects_x.ops.real")
    assert not find_module("projects_x.ops.nope")


def test_a_key_error_of_a_finder_itself_is_not_swallowed(make_package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
            raise KeyError("settings")

    make_package(NESTED)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    with pytest.raises(KeyError, match="settings"):
        find_module("projects_x.ops.real")


# --- patches --------------------------------------------------------------------------------------------------------

CHANGES = {
    "replace": lambda: pc.Replace("projects_x.ops.real:price", new),
    "all dots": lambda: pc.Replace("projects_x.ops.real.price", new),
    "wrap": lambda: pc.Wrap("projects_x.ops.real:price", lambda original: "new"),
    "register": lambda: pc.Replace('projects_x.ops.real:TABLE["price"]', new),
    "inject": lambda: pc.InjectImport("projects_x.ops.real", "label", "projects_x.ops.other"),
    "stub": lambda: pc.StubImport("projects_x.ops.missing"),
    "replace import": lambda: pc.ReplaceImport("projects_x.ops.real", with_="projects_x.ops.other"),
    "while importing": lambda: pc.WhileImporting("projects_x.ops.real", pc.Replace("projects_x.ops.other:name", new)),
    "call": lambda: pc.Call(lambda module, options: setattr(module, "price", new), module="projects_x.ops.real"),
}
USES = {
    "stub": "projects_x.ops.missing",
    "inject": "projects_x.ops.other",
}


@pytest.fixture
def nested(make_package: Any) -> None:
    real = f"import projects_x.ops.other\nTABLE = {{'price': 1}}\n{NESTED['projects_x.ops.real']}"
    other = "import projects_x.ops.real\nname = price = None"
    make_package({"projects_x.ops.real": real, "projects_x.ops.other": other})


@pytest.mark.parametrize("kind", CHANGES)
@pytest.mark.parametrize("parents", [(), ("projects_x",), ("projects_x", "projects_x.ops")], ids=len)
def test_every_kind_of_change_below_a_nested_namespace_package(nested: None, kind: str, parents: Any) -> None:
    for parent in parents:
        importlib.import_module(parent)
    with pc.Patcher([patch_of(CHANGES[kind]())], strict=True) as patcher:
        assert patcher.report()["projects.patch"].status in ("pending", "applied")
        importlib.import_module(USES.get(kind, "projects_x.ops.real"))
        assert patcher.report()["projects.patch"].status == "applied"
    assert not [name for name in sys.modules if name == "projects_x.ops.missing"]


@pytest.mark.parametrize("there", ["projects_x.ops", "projects_x.ops.real"])
def test_needs_below_a_nested_namespace_package(make_package: Any, there: str) -> None:
    make_package({**NESTED, "lib_x": "def price(): ..."})
    for needed, fits in ((there, True), ("projects_x.ops.nope", False)):
        entry = pc.Patcher([patch_of(pc.Replace("lib_x:price", new), needs=[needed])]).plan()["projects.patch"]
        assert (entry.verdict == "apply") is fits, entry.reason


@pytest.mark.parametrize("layout", list(itertools.product((True, False), repeat=2)))
def test_the_migration_api_below_namespace_packages(make_package: Any, layout: tuple[bool, bool]) -> None:
    from mx_driving_compat.patcher.patcher import Patcher

    regular = {name: "" for name, kept in zip(("projects_x", "projects_x.ops"), layout) if kept}
    make_package({**regular, **NESTED, "fake_x": "def price(): return 'new'"})
    patcher = Patcher()
    try:
        patcher.skip_import("projects_x.ops.missing", "projects_x.nope.deeper")
        patcher.replace_import("projects_x.ops.real", base_module="fake_x")
        patcher.inject_import("fake_x", "price", "projects_x.ops")
        assert importlib.import_module("projects_x.ops.missing").Anything
        assert importlib.import_module("projects_x.nope.deeper").Anything
        assert importlib.import_module("projects_x.ops.real").price() == "new"
        assert sys.modules["projects_x.ops"].price() == "new"
    finally:
        patcher.revert()


def test_our_own_patches_beside_a_package_with_folders_without_init(make_package: Any, run_python: Any) -> None:
    pytest.importorskip("torch_npu_patches")
    count = """
        import patchcore as pc
        patcher = pc.Patcher.discover(plugins=["torch_npu"])
        print(len(list(patcher.plan())), len(patcher.plugins.problems))
    """
    expected = run_python(count)
    make_package({"apex": "", "apex.contrib.optimizers": ""})
    assert run_python(count) == expected
    assert expected.split()[1] == "0"
