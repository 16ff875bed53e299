"""In a fresh process: applying imports nothing, and everybody sees the patch afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import pytest
from distributions import write_distribution

TARGET = {
    "visionlib": "from visionlib.ops import conv, Pool",
    "visionlib.ops": """
        def conv(): return "conv"
        class Pool:
            def run(self): return "run"
    """,
    "kernels": "def conv(): return 'kernel'",
    "early": "from visionlib.ops import conv as f, Pool\nclass Mine(Pool): pass",
    "late": "from visionlib import conv as f, Pool\nclass Mine(Pool): pass",
    "vision_plugin": """
        import patchcore as pc

        def run(original, self): return f"patched {original(self)}"

        @pc.hookimpl
        def register_patches():
            yield pc.Patch(
                "visionlib.ops",
                [pc.Replace("visionlib.ops:conv", "kernels:conv"), pc.Wrap("visionlib.ops:Pool.run", run)],
                requires="visionlib>=1",
                needs=["kernels"],
            )
    """,
}

LIBRARIES = {"visionlib", "visionlib.ops", "kernels", "early", "late"}


@pytest.fixture
def run(make_package: Callable[..., Path], run_python: Callable[..., str]) -> Callable[..., str]:
    folder = make_package(TARGET)
    write_distribution(folder, "visionlib", "1.2")
    write_distribution(folder, "vision-patches", "3.1", plugins={"vision": "vision_plugin"})

    return lambda code: run_python(f"import sys\nLIBRARIES = {LIBRARIES!r}\n{code}")


APPLY = """
import patchcore
patcher = patchcore.apply(plugins=["vision"])
"""


def test_discovering_planning_and_applying_imports_none_of_the_target_libraries(run) -> None:
    run(
        """
import patchcore
patcher = patchcore.Patcher.discover(plugins=["vision"])
assert [entry.go for entry in patcher.plan()] == [True]
report = patcher.apply()
assert report["visionlib.ops"].status == "pending"
assert report["visionlib.ops"].distribution == "vision-patches"
assert not LIBRARIES & set(sys.modules), LIBRARIES & set(sys.modules)
str(report), report.to_json()
assert not LIBRARIES & set(sys.modules)
patcher.revert()
assert not LIBRARIES & set(sys.modules)
"""
    )


def test_a_library_imported_later_is_patched_for_consumers_before_and_after(run) -> None:
    run(
        APPLY
        + """
import early
assert patcher.report()["visionlib.ops"].status == "applied"
import visionlib, late
assert early.f() == late.f() == visionlib.conv() == visionlib.ops.conv() == "kernel"
assert early.Mine().run() == late.Mine().run() == "patched run"
patcher.revert()
assert early.f is late.f is visionlib.conv is visionlib.ops.conv
assert early.f() == "conv"
assert early.Mine().run() == "run"
import kernels
assert kernels.conv() == "kernel"
"""
    )


def test_consumers_that_were_imported_before_are_rebound_and_restored(run) -> None:
    run(
        """
import early, visionlib
original = early.f
"""
        + APPLY
        + """
import late
assert early.f() == late.f() == visionlib.conv() == "kernel"
assert "early:f" in patcher.report()["visionlib.ops"].changes[0].rebound
patcher.revert()
assert early.f is late.f is visionlib.conv is visionlib.ops.conv is original
"""
    )


def test_applying_inside_the_import_of_a_consumer(run, make_package) -> None:
    make_package(
        {"applying": "from visionlib import conv\nimport patchcore\npatcher = patchcore.apply(plugins=['vision'])"}
    )
    run(
        """
import applying, visionlib, late
assert applying.conv() == visionlib.conv() == late.f() == "kernel"
applying.patcher.revert()
assert applying.conv is visionlib.conv is late.f
assert visionlib.conv() == "conv"
"""
    )


def test_applying_inside_the_import_of_the_target_itself(run, make_package) -> None:
    make_package(
        {
            "visionlib.ops": """
                import patchcore
                patcher = patchcore.apply(plugins=["vision"])
                def conv(): return "conv"
                class Pool:
                    def run(self): return "run"
            """
        }
    )
    run(
        """
import early, late
assert early.f() == late.f() == "kernel"
assert early.Mine().run() == "patched run"
import visionlib.ops
visionlib.ops.patcher.revert()
assert early.f is late.f is visionlib.conv is visionlib.ops.conv
assert early.f() == "conv"
"""
    )


def test_two_patchers_in_turn_share_across_a_later_import(run) -> None:
    run(
        APPLY
        + """
second = patchcore.apply(plugins=["vision"])
import late
assert late.Mine().run() == "patched run"
patcher.revert()
assert late.Mine().run() == "patched run"
second.revert()
assert late.Mine().run() == "run"
assert not [finder for finder in sys.meta_path if type(finder).__module__.startswith("patchcore")]
"""
    )
