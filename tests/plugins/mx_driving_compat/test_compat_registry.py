"""RegistryPatch of the mx_driving.patcher API: classes entered in registries of mmcv and mmengine, and taken out."""

# fixtures are imported, and named again by the parameters that get them
from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest
from migrations import no_plugins, told  # noqa: F401

from mx_driving_compat.patcher.patch import PatchStatus, RegistryPatch
from mx_driving_compat.patcher.patcher import Patcher

APPLIED, SKIPPED, FAILED = PatchStatus.APPLIED, PatchStatus.SKIPPED, PatchStatus.FAILED

ENGINE = {
    "engine": "from engine.registry import HOOKS",
    "engine.registry": """
        class Registry:
            def __init__(self): self._module_dict = {}
            def get(self, name): return self._module_dict.get(name)
            def register_module(self, name=None, force=False, module=None):
                self._module_dict[name] = module
        HOOKS = Registry()
        class Hook: pass
        HOOKS.register_module("Hook", module=Hook)
        """,
    "migration": """
        class Hook: "of the migration"
        class NpuHook: pass
        """,
}


@pytest.fixture
def hooks(make_package: Any) -> Any:
    """The registry, which is left as it was."""
    make_package(ENGINE)
    registry = importlib.import_module("engine.registry").HOOKS
    before = dict(registry._module_dict)
    yield registry
    assert list(registry._module_dict.items()) == list(before.items())


@pytest.fixture
def migration(hooks: Any) -> Any:
    return importlib.import_module("migration")


def test_an_entry_of_that_name_is_replaced_and_restored(hooks: Any, migration: Any) -> None:
    original, own = hooks.get("Hook"), migration.Hook
    with Patcher().add(RegistryPatch("engine.HOOKS", migration.Hook)):
        assert hooks.get("Hook") is own
        assert sys.modules["engine.registry"].Hook is original  # an entry is not what its name is elsewhere
    assert hooks.get("Hook") is original
    assert migration.Hook is own


def test_without_force_an_entry_of_that_name_is_a_failure(hooks: Any, migration: Any) -> None:
    original = hooks.get("Hook")
    result = RegistryPatch("engine.HOOKS", migration.Hook, force=False).apply()
    assert (result.status, "already registered" in result.reason) == (FAILED, True)
    assert hooks.get("Hook") is original


def test_a_factory_makes_the_class_when_it_is_applied(hooks: Any) -> None:
    made = []

    def make() -> type:
        made.append(type("Made", (sys.modules["engine.registry"].Hook,), {}))
        return made[-1]

    patch = RegistryPatch("engine.HOOKS", name="Made", module_factory=make)
    assert (patch.get_info(), made) == ("engine.HOOKS <- Made (<factory>)", [])
    with Patcher().add(patch):
        assert made == [hooks.get("Made")]


@pytest.mark.parametrize(
    ("arguments", "message"), [({}, "give either module_cls or module_factory="), ({"module_factory": len}, "name=")]
)
def test_what_is_registered_has_to_be_said(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RegistryPatch("engine.HOOKS", **arguments)


def test_a_factory_that_raises_is_a_failure(hooks: Any) -> None:
    result = RegistryPatch("engine.HOOKS", name="Made", module_factory=lambda: 1 / 0).apply()
    assert (result.status, result.reason) == (FAILED, "factory error: ZeroDivisionError: division by zero")


@pytest.mark.parametrize("path", ["absent.HOOKS", "engine.HOKS", "engine.registri.HOOKS"])
def test_a_registry_that_is_not_there_is_skipped(hooks: Any, migration: Any, path: str) -> None:
    result = RegistryPatch(path, migration.NpuHook).apply()
    assert (result.status, result.reason.partition(":")[0]) == (SKIPPED, "registry not found")


def test_neither_is_what_is_no_registry(hooks: Any, migration: Any) -> None:
    assert RegistryPatch("engine.registry.Hook", migration.NpuHook).apply().status is SKIPPED


@pytest.mark.parametrize("path", ["HOOKS", "engine..HOOKS", ".HOOKS"])
def test_a_malformed_path_fails_by_itself(hooks: Any, migration: Any, path: str) -> None:
    bad = RegistryPatch(path, migration.NpuHook)
    with Patcher().add(bad, RegistryPatch("engine.HOOKS", migration.NpuHook)):
        assert hooks.get("NpuHook") is migration.NpuHook
        assert not bad.is_applied


class TestPrecheck:
    def test_false_skips_before_anything_is_imported(self, make_package: Any) -> None:
        make_package({"heavy": "", "heavy.registry": ""})
        made: list[str] = []
        patch = RegistryPatch(
            "heavy.registry.HOOKS", name="H", module_factory=lambda: made.append("made"), precheck=lambda: False
        )
        assert patch.apply().reason == "precheck failed"
        assert not made
        assert not [name for name in sys.modules if name.startswith("heavy")]

    def test_a_bug_in_it_is_a_failure(self, hooks: Any, migration: Any) -> None:
        result = RegistryPatch("engine.HOOKS", migration.NpuHook, precheck=lambda: [][0]).apply()
        assert (result.status, result.reason.startswith("precheck error: IndexError")) == (FAILED, True)


def test_the_same_twice_is_one_entry_of_the_migration(hooks: Any, migration: Any) -> None:
    patches = [RegistryPatch("engine.HOOKS", migration.Hook) for _ in range(2)]
    with Patcher().add(*patches):
        assert all(patch.is_applied for patch in patches)
        assert hooks.get("Hook") is migration.Hook
