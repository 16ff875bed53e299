"""lazy.py: which module defines a name that a package provides lazily."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest

import patchcore as pc
from patchcore.objects.lazy import lazy_home

IMPL = "class Net:\n    def forward(self): return 'net'\ndef act(): return 'act'\n"
IMPORT = """
import importlib
def __getattr__(name):
    {find}
    if module is None: raise AttributeError(name)
    return getattr(importlib.import_module(module), name)
"""

#: Bodies of a package, as libraries write them.
PACKAGES = {
    "submodules with their names": "_import_structure = {'impl': ['Net', 'act']}\n"
    + IMPORT.format(
        find="module = next((f'lib.{m}' for m, names in _import_structure.items() if name in names), None)"
    ),
    "names with their submodule": "_MODULES = {'Net': '.impl', 'act': '.impl'}\n"
    + IMPORT.format(find="module = 'lib' + _MODULES[name] if name in _MODULES else None"),
    "names with module and attribute": "_ATTRS = {'Net': '.impl:Net', 'act': '.impl:act'}\n"
    + IMPORT.format(find="module = 'lib' + _ATTRS[name].partition(':')[0] if name in _ATTRS else None"),
    "names with a tuple": "_LAZY = {'Net': ('lib.impl', 'Net'), 'act': ('lib.impl', 'act')}\n"
    + IMPORT.format(find="module = _LAZY[name][0] if name in _LAZY else None"),
    "a closure": """
import importlib
def attach(package, modules):
    table = {name: module for module, names in modules.items() for name in names}
    def __getattr__(name):
        if name not in table: raise AttributeError(name)
        return getattr(importlib.import_module(f"{package}.{table[name]}"), name)
    return __getattr__
__getattr__ = attach(__name__, {"impl": ["Net", "act"]})
""",
    "a class of modules": """
import importlib, sys, types
class Lazy(types.ModuleType):
    def __init__(self, name, path, structure):
        super().__init__(name)
        self.__path__ = path
        self._structure = structure
        self._class_to_module = {
            name: module for table in structure.values() for module, names in table.items() for name in names
        }
    def __getattr__(self, name):
        if name not in self._class_to_module: raise AttributeError(name)
        value = getattr(importlib.import_module(f"lib.{self._class_to_module[name]}"), name)
        setattr(self, name, value)
        return value
sys.modules[__name__] = Lazy(__name__, __path__, {frozenset({"torch"}): {"impl": {"Net", "act"}}})
""",
}


def wrapped(original: Any, *args: Any) -> str:
    return f"new {original(*args)}"


PATCHES = [
    pc.Patch("lib.net", [pc.Wrap("lib:Net.forward", wrapped)]),
    pc.Patch("lib.act", [pc.Replace("lib:act", lambda: "new act")]),
]


@pytest.mark.parametrize("body", PACKAGES.values(), ids=PACKAGES)
@pytest.mark.parametrize("first", ["nothing", "lib", "lib.impl"])
def test_the_module_that_defines_the_name_is_patched(make_package, body: str, first: str) -> None:
    make_package({"lib": body, "lib.impl": IMPL})
    if first != "nothing":
        importlib.import_module(first)
    with pc.Patcher(PATCHES) as patcher:
        lib = importlib.import_module("lib")
        assert ("lib.impl" in sys.modules) == (first == "lib.impl")  # nothing is imported for a patch
        assert (lib.Net().forward(), lib.act()) == ("new net", "new act")
        report = patcher.report()
        (change,) = report["lib.net"].changes
        assert (change.target, change.status) == ("lib.impl:Net.forward", "applied")
        assert change.reason == "lib provides it lazily"
    assert (lib.Net().forward(), importlib.import_module("lib.impl").act()) == ("net", "act")


def test_a_package_may_lead_to_another_that_is_lazy(make_package) -> None:
    table = "_TABLE = {{'Net': '{0}'}}\n" + IMPORT.format(
        find="module = f'{{__name__}}.{{_TABLE[name]}}' if name in _TABLE else None"
    )
    make_package({
        "lib": table.replace("{0}", "models").replace("{{", "{").replace("}}", "}"),
        "lib.models": table.replace("{0}", "impl").replace("{{", "{").replace("}}", "}"),
        "lib.models.impl": IMPL,
    })  # fmt: skip
    with pc.Patcher(PATCHES[:1]) as patcher:
        import lib

        assert lib.Net().forward() == "new net"
        assert patcher.report()["lib.net"].changes[0].target == "lib.models.impl:Net.forward"


@pytest.mark.parametrize(
    ("imports", "perhaps"),
    [
        ("from lib import impl", ", perhaps 'lib.impl:Net.forward'"),
        ("from lib.impl import Net", ", perhaps 'lib.impl:Net.forward'"),
        ("from . import impl, other", ""),
        ("impl = vars()", ""),
    ],
)
def test_without_a_table_the_message_names_the_way(make_package, imports: str, perhaps: str) -> None:
    make_package({"lib": f"def __getattr__(name):\n    {imports}\n", "lib.impl": IMPL, "lib.other": ""})
    with pc.Patcher(PATCHES[:1]) as patcher:
        importlib.import_module("lib")
        assert patcher.report()["lib.net"].reason == (
            "lib has no Net (target lib:Net.forward); if lib provides it lazily (PEP 562), "
            f"target the module that defines it{perhaps}"
        )


def test_no_code_of_a_package_runs(make_package) -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise AssertionError

        def __hash__(self) -> int:
            raise AssertionError

        def __getattribute__(self, name: str) -> Any:
            raise AssertionError

    make_package({"lib": "def __getattr__(name):\n    raise AssertionError\n", "lib.impl": IMPL})
    lib = importlib.import_module("lib")
    lib.table = {1: Odd(), "impl": [Odd(), "Net"], "act": Odd()}
    assert lazy_home("lib", lib, "Net") == "lib.impl"
    assert lazy_home("lib", lib, "act") is None
    assert lazy_home("lib", lib, "gone") is None
    assert lazy_home("json", importlib.import_module("json"), "gone") is None
