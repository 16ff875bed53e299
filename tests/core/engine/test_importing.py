"""Being told of imports: after the body ran, before the importer goes on, and with nothing left in the module."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import inspect
import os
import sys
import traceback
import zipfile
import zipimport
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from watching import SHOP, Watch, new, replace

import patchcore

#: What the names of patchcore's own files begin with.
OURS = str(Path(patchcore.__file__).parent) + os.sep


@pytest.fixture
def watch() -> Iterator[Watch]:
    made = Watch()
    yield made
    made.end()


# --- when ----------------------------------------------------------------------------------------------------------


def test_an_importer_never_sees_the_module_unpatched(make_package, watch: Watch) -> None:
    make_package(SHOP)
    watch("shop.tools")
    watch.callback = replace
    assert importlib.import_module("user").price is new


def test_only_watched_modules_are_told_of_and_each_once(make_package, watch: Watch) -> None:
    make_package(SHOP)
    watch("shop.tools", "shop.tools")
    importlib.import_module("user")
    importlib.import_module("user")
    assert watch.names == ["shop.tools"]
    assert type(sys.modules["user"].__spec__) is importlib.machinery.ModuleSpec


def test_the_finder_is_on_the_meta_path_only_while_something_is_watched(make_package, watch: Watch) -> None:
    before = list(sys.meta_path)
    watch("shop")
    watch("shop", "other")
    assert sys.meta_path == [watch.watch, *before]
    watch.let_go("shop")
    assert sys.meta_path == [watch.watch, *before]
    watch.end()
    assert sys.meta_path == before


def test_a_name_is_watched_until_it_was_let_go_as_often(make_package, watch: Watch) -> None:
    make_package(SHOP)
    watch("other", "shop", "shop")
    watch.let_go("shop")
    importlib.import_module("shop")
    assert watch.names == ["shop"]


def test_all_of_a_package_is_watched_inside_the_block(make_package, watch: Watch) -> None:
    make_package(SHOP)
    with watch.watch.watching_roots(["shop"], None):
        importlib.import_module("user")
    importlib.import_module("other")
    assert watch.names == ["shop", "shop.tools"]


def test_circular_imports_are_told_when_each_body_ends(make_package, watch: Watch) -> None:
    make_package(
        {
            "first": "def price(): ...\nimport second",
            "second": "import first\nfrom first import price",
        }
    )
    watch("first", "second")
    importlib.import_module("first")
    assert watch.names == ["second", "first"]
    # the second took the name before the first was told of: it must be among those that may hold it
    fresh = watch.told[1][2]
    assert fresh.keys() >= {"first", "second"}


def test_modules_that_were_there_before_cannot_hold_what_is_new_and_are_left_out(make_package, watch: Watch) -> None:
    make_package({**SHOP, "outer": "import other, shop.tools", "by_the_way": ""})
    importlib.import_module("by_the_way")
    watch("shop.tools")
    importlib.import_module("outer")
    fresh = watch.told[0][2]
    assert "shop.tools" in fresh
    assert "outer" in fresh  # its import is under way
    assert "by_the_way" not in fresh


def test_an_import_that_fails_is_not_told_of_and_can_be_tried_again(make_package, watch: Watch) -> None:
    make_package({"broken": "import sys\nif not hasattr(sys, '_repaired'): raise RuntimeError('half way')"})
    watch("broken")
    with pytest.raises(RuntimeError, match="half way"):
        importlib.import_module("broken")
    assert watch.told == []
    assert "broken" not in sys.modules
    sys._repaired = True
    try:
        importlib.import_module("broken")
    finally:
        del sys._repaired
    assert watch.names == ["broken"]


@pytest.mark.parametrize(
    "source",
    ["raise RuntimeError('half way')", "import nosuchmodule", "def f(:", "import broken.deeper"],
    ids=["raised", "missing", "syntax", "nested"],
)
def test_the_traceback_of_an_import_that_fails_is_that_of_an_unwatched_one(
    make_package, watch: Watch, source: str
) -> None:
    make_package({"user": "import broken", "broken": source, "broken.deeper": "1 / 0"})

    def fail() -> list[str]:
        try:
            import user  # noqa: F401
        except Exception as error:
            return traceback.format_exception(type(error), error, error.__traceback__)
        raise AssertionError("the import went well")

    expected = fail()
    watch("user", "broken", "broken.deeper")
    watch.callback = replace
    assert fail() == expected
    assert not [line for line in expected if OURS in line]
    assert not [line for line in expected if "importlib" in line]


def test_what_the_callback_raises_fails_the_import(make_package, watch: Watch) -> None:
    make_package(SHOP)

    def refuse(*args: Any) -> None:
        raise ValueError("refused")

    watch("shop.tools")
    watch.callback = refuse
    with pytest.raises(ValueError, match="refused"):
        importlib.import_module("user")
    assert "shop.tools" not in sys.modules
    assert "user" not in sys.modules


def test_a_module_that_puts_another_object_in_its_place_is_told_of_as_that(make_package, watch: Watch) -> None:
    make_package({"shifty": "import sys, types\nsys.modules[__name__] = types.SimpleNamespace(price=1)"})
    watch("shifty")
    assert importlib.import_module("shifty").price == 1
    assert watch.told[0][1] is sys.modules["shifty"]


def test_a_namespace_package_is_told_of(make_package, watch: Watch) -> None:
    make_package({"space.part": ""})
    watch("space")
    space = importlib.import_module("space.part") and sys.modules["space"]
    assert [(name, module) for name, module, _ in watch.told] == [("space", space)]
    assert type(space.__spec__) is importlib.machinery.ModuleSpec
    assert "_patchcore_watch" not in vars(space.__spec__)


@pytest.mark.parametrize("name", ["math", "_struct", "colorsys"])
def test_builtin_and_extension_modules_are_told_of(watch: Watch, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delitem(sys.modules, name, raising=False)
    watch(name)
    importlib.import_module(name)
    assert watch.names == [name]


def zip_package(folder: Path) -> str:
    """Move a package of ``make_package`` into an archive; return its path."""
    path = folder.parent / "packages.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.rglob("*.py")):
            archive.write(file, file.relative_to(folder))
            file.unlink()
    return str(path)


def test_modules_in_an_archive_are_told_of(make_package, watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(zip_package(make_package(SHOP)))
    watch("shop", "shop.tools")
    watch.callback = replace
    assert importlib.import_module("user").price is new
    assert watch.names == ["shop", "shop.tools"]
    for name in watch.names:
        module = sys.modules[name]
        assert type(module.__spec__.loader) is type(module.__loader__) is zipimport.zipimporter


def test_the_traceback_of_an_import_from_an_archive_that_fails_has_none_of_our_frames(
    make_package, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(zip_package(make_package({"broken": "1 / 0"})))
    watch("broken")
    with pytest.raises(ZeroDivisionError) as caught:
        import broken  # noqa: F401
    frames = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert [name for name in frames if name.startswith(OURS)] == []
    assert frames[-1].endswith(f"packages.zip{os.sep}broken.py")


# --- nothing is left in the module ----------------------------------------------------------------------------------


def test_loader_and_spec_are_those_of_an_unwatched_import(make_package, watch: Watch) -> None:
    make_package({"shop": "SEEN = __spec__.loader, __loader__, type(__spec__)"})
    watch("shop")
    shop = importlib.import_module("shop")
    loader = importlib.machinery.SourceFileLoader
    assert type(shop.__loader__) is type(shop.__spec__.loader) is loader
    assert shop.__spec__.loader is shop.__loader__
    assert type(shop.__spec__) is importlib.machinery.ModuleSpec
    assert (shop.__loader__, shop.__loader__, importlib.machinery.ModuleSpec) == shop.SEEN  # while it ran, too
    assert importlib.util.find_spec("shop") is shop.__spec__


def test_the_source_and_the_resources_of_a_watched_package_are_found(make_package, watch: Watch) -> None:
    import pkgutil

    folder = make_package(SHOP)
    (folder / "shop" / "data.txt").write_text("data")
    watch("shop", "shop.tools")
    assert pkgutil.get_data("shop", "data.txt") == b"data"
    tools = importlib.import_module("shop.tools")
    assert inspect.getsource(tools.price).strip() == "def price(): return 'original'"
    if sys.version_info >= (3, 10):
        import importlib.resources as resources

        assert resources.files("shop").joinpath("data.txt").read_text() == "data"


def test_asking_for_the_spec_of_a_watched_module_imports_nothing(make_package, watch: Watch) -> None:
    make_package(SHOP)
    watch("shop", "user")
    spec = importlib.util.find_spec("user")
    assert spec is not None
    assert spec.loader.get_source("user") == SHOP["user"]
    assert spec.origin.endswith("user.py")
    assert "user" not in sys.modules
    assert watch.told == []
    assert importlib.util.find_spec("no_such_module") is None


def test_a_module_made_from_its_spec_by_hand_is_told_of(make_package, watch: Watch) -> None:
    make_package(SHOP)
    watch("other")
    spec = importlib.util.find_spec("other")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert watch.told[0][1] is module
    assert type(module.__loader__) is importlib.machinery.SourceFileLoader


def test_a_watched_module_runs_as_a_script(make_package, run_python) -> None:
    make_package({"shop": "def price(): return 1\nif __name__ == '__main__': print('ran', price())"})
    code = """
        import runpy, sys
        from patchcore.engine.importing import ImportWatch
        watch = ImportWatch(lambda *args: print("told"))
        watch.watch("shop", None)
        runpy.run_module("shop", run_name="__main__", alter_sys=True)
        import shop
        """
    assert run_python(code).split() == ["ran", "1", "told"]


# --- other finders --------------------------------------------------------------------------------------------------


class Finder:
    """A finder that finds by itself, as pytest's or an editable install's does."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return importlib.machinery.PathFinder.find_spec(name, path, target) if name in self.names else None


def test_a_finder_that_was_in_front_still_finds_the_module(
    make_package, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_package(SHOP)
    finder = Finder("shop")
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    watch("shop")
    assert sys.meta_path[:2] == [watch.watch, finder]
    importlib.import_module("shop")
    assert watch.names == ["shop"]
    watch.end()
    assert sys.meta_path[0] is finder


def test_a_finder_that_asks_importlib_again_does_not_go_round_in_circles(
    make_package, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_package(SHOP)
    asked: list[str] = []

    class Asking:
        def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
            if name != "shop" or asked:
                return None
            asked.append(name)
            return importlib.util.find_spec(name)

    monkeypatch.setattr(sys, "meta_path", [Asking(), *sys.meta_path])
    watch("shop")
    importlib.import_module("shop")
    assert asked == ["shop"]
    assert watch.names == ["shop"]
    watch.end()


def test_two_watches_are_both_told(make_package, watch: Watch) -> None:
    make_package(SHOP)
    second = Watch()
    watch("other")
    second("other")
    try:
        other = importlib.import_module("other")
    finally:
        second.end()
    assert watch.names == second.names == ["other"]
    assert type(other.__loader__) is importlib.machinery.SourceFileLoader
    assert type(other.__spec__.loader) is importlib.machinery.SourceFileLoader


def test_the_meta_path_is_replaced_and_not_changed_under_an_import_that_walks_it(watch: Watch) -> None:
    walked = sys.meta_path
    before = list(walked)
    watch("shop")
    watch.end()
    assert walked == before
    assert sys.meta_path == before
