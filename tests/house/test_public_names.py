"""The names users rely on: exported, documented, importable without what they do not need."""

from __future__ import annotations

import inspect
import pkgutil
import re
from importlib import import_module
from pathlib import Path

import pytest

import patchcore
from patchcore import errors, hookspecs
from patchcore.builtin.run import hookspecs as hooks_of_run

EXPORTED = patchcore.__all__
ROOT = next(folder for folder in Path(__file__).parents if (folder / "docs").is_dir())

HOOKS = {
    "register_patches": ["settings", "plugins"],
    "register_settings": [],
    "register_writers": [],
    "register_guards": [],
    "register_marks": [],
    "register_handovers": [],
    "registry_tables": [],
    "remarks": ["entry", "environment", "thorough"],
    "find_home": ["target", "far"],
    "before_apply": ["patch", "context", "planning"],
    "after_collect": ["plugins", "answers", "candidates"],
    "after_apply": ["patch", "outcome"],
    "on_failure": ["patch", "error", "context"],
    "find_holders": ["originals", "ours"],
    "report_sections": [],
    "emulated_devices": [],
    "register_hookspecs": [],
    "list_sections": ["plugins"],
    "register_commands": ["subparsers"],
    "advise": ["name", "command"],
    "register_run_options": ["parser", "command"],
    "start_process": ["patcher", "session"],
    "configure_run": ["options", "settings"],
    "refuse_run": ["options", "plan"],
    "register_compat": [],
    "register_engines": [],
    "process_patched": ["patcher", "report"],
    "rank_launchers": [],
    "conclusions": ["report", "plan"],
}


def test_dir_of_the_package_is_its_public_names_in_order() -> None:
    assert dir(patchcore) == sorted(set(EXPORTED))


def test_every_name_that_the_documentation_uses_is_exported() -> None:
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("plugins/*/README.md")]
    used = {name for page in pages for name in re.findall(r"\bpc\.([A-Za-z]\w*)", page.read_text(encoding="utf-8"))}
    assert len(used) > 20
    assert used <= set(EXPORTED)


def test_every_error_is_exported() -> None:
    found = {
        name
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, patchcore.PatchcoreError)
    }
    internal = {"Ended", "NotShown", "Unseen"}  # caught inside of patchcore
    assert found - internal <= set(EXPORTED)


@pytest.mark.parametrize("name", EXPORTED)
def test_every_exported_name_is_there_and_documented(name) -> None:
    value = getattr(patchcore, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert inspect.getdoc(value), f"{name} has no docstring"


def test_every_hook_is_pinned_and_documented() -> None:
    found = {
        name: function
        for name, function in [*vars(hookspecs).items(), *vars(hooks_of_run).items()]
        if hasattr(function, "patchcore_spec")
    }
    assert {name: list(inspect.signature(function).parameters) for name, function in found.items()} == HOOKS
    for name, function in found.items():
        assert inspect.getdoc(function), f"{name} has no docstring"


MODULES = [module.name for module in pkgutil.walk_packages(patchcore.__path__, "patchcore.") if "__" not in module.name]


@pytest.mark.parametrize("module", MODULES)
def test_every_module_says_what_it_is_and_exports_what_it_has(module) -> None:
    loaded = import_module(module)
    assert inspect.getdoc(loaded)
    for name in getattr(loaded, "__all__", ()):
        value = getattr(loaded, name)
        if (inspect.isclass(value) or inspect.isfunction(value)) and value.__module__ == loaded.__name__:
            if hasattr(value, "patchcore_impl"):
                continue  # its hook says what it does
            assert inspect.getdoc(value), f"{module}.{name} has no docstring"


def test_declaring_patches_loads_neither_engine_nor_patcher(run_python) -> None:
    run_python(
        """
        import sys
        import patchcore as pc
        pc.Patch("shop.price", [pc.Replace("shop:price", len)])
        loaded = {name for name in sys.modules if name.startswith("patchcore.")}
        heavy = {"patchcore.engine.engine", "patchcore.patcher", "patchcore.planning.plan", "patchcore.settings"}
        assert not loaded & heavy, loaded
        assert "rich" not in sys.modules
        assert "packaging" not in sys.modules
        assert "msgspec" not in sys.modules
        pc.Patcher
        assert "patchcore.patcher" in sys.modules
        from patchcore.cli import main
        main(["list"])
        assert "jinja2" not in sys.modules
        """
    )


def test_a_process_of_a_run_loads_nothing_that_only_commands_need(tmp_path: Path, run_python) -> None:
    out = run_python(
        f"""
        import sys
        import patchcore as pc
        from patchcore.builtin.run.process_report import ProcessReport
        from patchcore.builtin.run.session import Session
        patcher = pc.Patcher()
        patcher.settings = patcher.settings._replace(values={{"report_dir": {str(tmp_path)!r}}})
        ProcessReport(Session("r", 1, patcher.settings), patcher, "main").write()
        print(sorted({{"rich", "msgspec", "jinja2"}} & set(sys.modules)))
        """
    )
    assert out.strip() == "[]"
    assert len(list(tmp_path.iterdir())) == 1
