"""audit: patches of every kind that other code can make are found, and normal Python is none."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Callable

import pytest

pytestmark = pytest.mark.skipif(sys.implementation.name != "cpython", reason="knows CPython")

WATCHED = sys.version_info >= (3, 12)

LIBRARY = """
    import functools
    from biglib import extra

    def scale(x): return x * 2
    def clip(x): return x
    def twice(x): return x
    def stacked(x): return x
    def shift(x, by=1): return x + by
    def body(x): return x
    def part(x, y=0): return x + y
    def gone(x): return x
    def undone(x): return x
    def mocked(x): return x
    def run_text(): return 2
    RATE = 3

    class Norm:
        def forward(self, x): return x
        def reset(self): return 0
        @property
        def size(self): return 1
        @staticmethod
        def eps(): return 1e-5
        @classmethod
        def make(cls): return cls()
        class Inner:
            def run(self): return 0
    """

TOOL = """
    import functools, sys, types
    import biglib.core as core
    from unittest import mock

    def scale(x): return x
    core.scale = scale

    def wrapper(function):
        @functools.wraps(function)
        def wrapped(*args): return function(*args)
        return wrapped

    core.clip = wrapper(core.clip)
    core.twice = wrapper(wrapper(core.twice))
    core.stacked = wrapper(core.stacked)
    core.shift.__defaults__ = (5,)
    core.body.__code__ = scale.__code__
    core.part = functools.partial(core.part, y=3)
    del core.gone
    vars(core)["added"] = scale
    core.__dict__["RATE"] = scale
    original = core.undone
    core.undone = scale
    core.undone = original
    mock.patch("biglib.core.mocked").start()

    core.Norm.forward = lambda self, x: 2 * x
    core.Norm.extra = lambda self: 3
    core.Norm.size = property(lambda self: 2)
    core.Norm.eps = staticmethod(lambda: 0)
    core.Norm.make = classmethod(lambda cls: None)
    core.Norm.Inner.run = lambda self: 1
    del core.Norm.reset

    def run(self): pass
    sys.modules["fastlib"] = types.ModuleType("fastlib")
    replaced = types.ModuleType("biglib.extra")
    replaced.run = run
    sys.modules["biglib.extra"] = replaced
    exec("def run_text(): return 3", vars(core))
    """

OTHER = """
    import functools
    import biglib.core as core

    def wrapper(function):
        @functools.wraps(function)
        def wrapped(*args): return function(*args)
        return wrapped

    core.stacked = wrapper(core.stacked)
    """

USER = "from biglib.core import scale"

#: Normal Python: re-exports, a lazy module, a registry, a library that fills its own classes, generated methods, data.
NORMAL = {
    "calm": "from calm.api import sell\nfrom calm import lazy",
    "calm.api": """
        import dataclasses
        def sell(): return 1
        COUNT = 0
        _cached = None
        class Shop: pass
        @dataclasses.dataclass
        class Item:
            price: int = 0
        def count():
            global COUNT, _cached
            COUNT += 1
            _cached = sell
        """,
    "calm.fill": """
        from calm import api
        def rent(self): return 2
        api.Shop.rent = rent
        api.more = rent
        """,
    "calm.lazy": """
        import importlib
        def __getattr__(name):
            if name != "fill": raise AttributeError(name)
            found = importlib.import_module("calm.fill")
            globals()[name] = found
            return found
        """,
}

PROGRAM = """
    import json
    import patchcore as pc
    pc.audit()
    import biglib.core, user
    import npu_tool
    import npu_tool.other_part
    import other_tool
    import calm, calm.lazy
    calm.lazy.fill
    calm.api.count()
    calm.setting = 3
    print(json.dumps(pc.audit().to_dict()))
    """


@pytest.fixture
def audited(make_package: Any, run_python: Callable[..., str]) -> dict[str, Any]:
    make_package(
        {
            "biglib": "from biglib import extra",
            "biglib.extra": "def run(): pass",
            "biglib.core": LIBRARY,
            "npu_tool": TOOL,
            "npu_tool.other_part": "",
            "other_tool": OTHER,
            "user": USER,
            **NORMAL,
        }
    )
    found: dict[str, Any] = json.loads(run_python(PROGRAM))
    return found


def line_of(text: str) -> str:
    """Return the place of a line in TOOL."""
    found = next(number for number, line in enumerate(TOOL.splitlines(), 1) if text in line)
    return f"npu_tool{os.sep}__init__.py:{found}"


def test_every_planted_patch_is_found_and_normal_python_is_not(audited: dict[str, Any]) -> None:
    kinds = {row["target"]: row["kind"] for row in audited["findings"]}
    assert kinds == {
        "biglib.core:scale": "replaced",
        "biglib.core:clip": "replaced",
        "biglib.core:twice": "replaced",
        "biglib.core:stacked": "replaced",
        "biglib.core:shift": "body",
        "biglib.core:body": "body",
        "biglib.core:part": "replaced",
        "biglib.core:gone": "removed",
        "biglib.core:added": "added",
        "biglib.core:RATE": "replaced",
        "biglib.core:mocked": "replaced",
        "biglib.core:run_text": "replaced",
        "biglib.core:Norm.forward": "replaced",
        "biglib.core:Norm.extra": "added",
        "biglib.core:Norm.size": "replaced",
        "biglib.core:Norm.eps": "replaced",
        "biglib.core:Norm.make": "replaced",
        "biglib.core:Norm.Inner.run": "replaced",
        "biglib.core:Norm.reset": "removed",
        "sys.modules['fastlib']": "module",
        "sys.modules['biglib.extra']": "module",
    }
    assert audited["incomplete"] == []
    assert audited["normal"]["own code"] >= 2


def test_who_wrote_is_the_line_where_python_can_watch_and_a_marked_guess_elsewhere(audited: dict[str, Any]) -> None:
    rows = {row["target"]: row for row in audited["findings"]}
    scale = rows["biglib.core:scale"]
    assert scale["written at"] == line_of("core.scale =")
    assert scale["writer is"] == ("seen" if WATCHED else "guessed")
    assert rows["biglib.core:shift"]["written at"] == line_of("core.shift.")
    assert rows["biglib.core:shift"]["writer is"] == rows["biglib.core:body"]["writer is"] == "seen"
    forward = rows["biglib.core:Norm.forward"]
    assert forward["written at"] == line_of("core.Norm.forward =")
    assert forward["writer is"] == ("seen" if WATCHED else "guessed")
    assert rows["biglib.core:run_text"]["by"] == ("npu_tool" if WATCHED else "unknown")  # exec has no file
    assert {row["by"] for row in rows.values()} - {"unknown"} == {"npu_tool", "other_tool"}
    if WATCHED:
        mocked = rows["biglib.core:mocked"]
        assert mocked["written at"].startswith(f"unittest{os.sep}mock.py:")
        assert mocked["called from"] == line_of("mock.patch(")
        assert rows["biglib.core:added"]["written at"] == line_of("vars(core)[")
        of_classes = [row for row in rows.values() if row["target"].startswith("biglib.core:Norm.")]
        assert len(of_classes) == 7
        assert {row["writer is"] for row in of_classes} == {"seen"}
        for name in ("size", "eps", "make", "Inner.run"):
            assert rows[f"biglib.core:Norm.{name}"]["written at"] == line_of(f"core.Norm.{name} =")
        assert rows["biglib.core:Norm.reset"]["written at"] == line_of("del core.Norm.reset")


def test_when_it_was_written_and_which_names_hold_the_original(audited: dict[str, Any]) -> None:
    rows = {row["target"]: row for row in audited["findings"]}
    assert rows["biglib.core:Norm.forward"]["after import"] == "npu_tool"
    assert rows["biglib.core:scale"]["still original"] == "user:scale"
    assert rows["biglib.core:clip"]["still original"] == ""


def test_conflicts(audited: dict[str, Any]) -> None:
    conflicts = {row["target"]: row["conflict"] for row in audited["findings"] if row["conflict"]}
    assert conflicts == {
        "biglib.core:twice": f"applied twice: {line_of('@functools')}",
        "biglib.core:stacked": "two owners: npu_tool and other_tool",
    }


def test_a_patch_that_undoes_another_is_a_conflict(make_package: Any, run_python: Callable[..., str]) -> None:
    make_package(
        {
            "biglib": "def scale(x): return x",
            "one": "import biglib\ndef scale(x): return 1\nbiglib.scale = scale",
            "two": "import biglib\ndef scale(x): return 2\nbiglib.scale = scale",
        }
    )
    printed = run_python("""
        import patchcore as pc
        pc.audit()
        import biglib
        import one
        import two
        found, = pc.audit().conflicts
        print(found.target, found.conflict)
        """)
    assert printed == "biglib:scale two owners: one and two; one.py:2 is no longer called\n"


def test_a_package_that_executes_its_own_file_again_is_no_finding_and_is_watched(
    make_package: Any, run_python: Callable[..., str]
) -> None:
    again = """
        import importlib.util, sys
        def execute():
            spec = importlib.util.spec_from_file_location("biglib", sys.modules["biglib"].__spec__.origin)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
    """
    lazy = """
        import sys, types
        class Lazy(types.ModuleType):
            pass
        made = Lazy("biglib")
        made.__spec__ = __spec__
        made.__path__ = __path__
        def scale(x): return x
        made.scale = scale
        sys.modules["biglib"] = made
    """
    make_package(
        {
            "biglib": lazy,
            "biglib.again": again,
            "biglib.once": "from biglib.again import execute\nexecute()",
            "tool": "import biglib\ndef scale(x): return 2\nbiglib.scale = scale",
            "proxy": """
                import sys, types
                class Proxy(types.ModuleType):
                    pass
                made = Proxy("biglib")
                made.__spec__ = sys.modules["biglib"].__spec__
                sys.modules["biglib"] = made
            """,
        }
    )
    printed = run_python("""
        import sys
        import patchcore as pc
        pc.audit()
        import biglib
        executed = biglib
        import biglib.once
        assert sys.modules["biglib"] is not executed
        print([(found.target, found.by) for found in pc.audit().findings])
        import tool
        print([(found.target, found.by) for found in pc.audit().findings])
        import proxy
        print([(found.target, found.kind) for found in pc.audit().findings])
        """)
    first, second, third = printed.splitlines()
    assert first == "[]"
    assert second == "[('biglib:scale', 'tool')]"
    assert "(\"sys.modules['biglib']\", 'module')" in third


def test_an_audit_that_starts_late_says_so(make_package: Any, run_python: Callable[..., str]) -> None:
    make_package({"biglib": "def scale(x): return x", "tool": "import biglib\nbiglib.scale = len"})
    printed = run_python("""
        import biglib, tool
        import patchcore as pc
        print(pc.audit())
        """)
    assert "incomplete: the audit began after biglib, tool: patches that were made before are not seen" in printed


def test_patches_of_patchcore_are_labelled_and_one_under_foreign_code_is_a_conflict(
    make_package: Any, run_python: Callable[..., str]
) -> None:
    make_package(
        {
            "biglib": "def scale(x): return x\ndef clip(x): return x\nclass Norm:\n    def forward(self): return 0",
            "tool": "import biglib\ndef clip(x): return 2\nbiglib.clip = clip",
        }
    )
    printed = run_python("""
        import json
        import patchcore as pc
        pc.audit()
        def one(original, *args): return original(*args)
        pc.Patcher([
            pc.Patch("a.scale", pc.Replace("biglib:scale", lambda x: 3)),
            pc.Patch("a.clip", pc.Replace("biglib:clip", lambda x: 3)),
            pc.Patch("a.forward", pc.Wrap("biglib:Norm.forward", one)),
        ]).apply()
        import biglib, tool
        print(json.dumps([
            (found.target, found.by, found.kind, found.patches, found.conflict) for found in pc.audit().findings
        ]))
        """)
    assert json.loads(printed) == [
        ["biglib:Norm.forward", "patchcore", "body", ["a.forward"], ""],
        ["biglib:scale", "patchcore", "replaced", ["a.scale"], ""],
        ["biglib:clip", "tool", "replaced", [], "two owners: patchcore and tool; <string>:8 is no longer called"],
    ]


def test_the_process_ends_well_while_modules_are_watched(make_package: Any, run_python: Callable[..., str]) -> None:
    # A watcher of dictionaries that is called after Python has freed ctypes ends the process with a segmentation fault.
    make_package({"biglib": "class End:\n    def __del__(self): globals()['ended'] = len\nend = End()"})
    assert run_python("import patchcore as pc\npc.audit()\nimport biglib\nprint('end')") == "end\n"
