"""What ``patchcore.apply()`` costs a program that has imported nothing yet, with every plugin of this checkout."""

from __future__ import annotations

from benchmarks.measure import interleave
from benchmarks.processes import environment, reported, run
from benchmarks.rows import Budget, Row, compare, skipped
from benchmarks.subjects import missing

SUBJECT = "pending"
WHAT = "discover, plan, apply, nothing imported yet"
ALONE = "plan, apply, nothing imported yet"
PLUGGY = "bare pluggy: load the same plugins, call the hook"
LIBRARIES = ("torch", "mmcv", "mmdet")
PLUGINS = ("mmcv_npu", "mmdet3d_npu", "torch_npu_patches", "npu_emulator")

_PREPARE = """\
import sys, time
import importlib.metadata, pluggy, patchcore
import npu_emulator
npu_emulator.install()
"""
_DISCOVER = "patcher = patchcore.Patcher.discover(strict=True)\n"
_START = "start = time.perf_counter()\n"
_APPLY = "patcher.apply()\n"
_PRINT = "print(time.perf_counter() - start)\n"
_PLUGGY = """\
import types
manager = pluggy.PluginManager("patchcore")
manager.load_setuptools_entrypoints("npu_patches")
manager.hook.register_patches(settings=types.SimpleNamespace(options={}, get={}.get))
"""
_CHECK = """\
imported = [name for name in ("torch", "numpy", "mmcv", "mmengine", "mmdet") if name in sys.modules]
assert not imported, f"apply imported {imported}"
print(patcher.report().summary())
"""


def rows(budget: Budget) -> list[Row]:
    """Time apply inside fresh interpreters, patchcore itself being imported and the kernels being stand-ins."""
    why = missing(*LIBRARIES, *PLUGINS)
    if why is not None:
        return [skipped(SUBJECT, what, PLUGGY, why) for what in (WHAT, ALONE)]
    env = environment()
    outcome = run(["-c", _PREPARE + _DISCOVER + _APPLY + _CHECK], env).strip()
    timings = {
        WHAT: reported(_PREPARE + _START + _DISCOVER + _APPLY + _PRINT, env),
        ALONE: reported(_PREPARE + _DISCOVER + _START + _APPLY + _PRINT, env),
        PLUGGY: reported(_PREPARE + _START + _PLUGGY + _PRINT, env),
    }
    samples = interleave(timings, budget.rounds(20))
    return [
        compare(SUBJECT, f"{what} ({outcome})", PLUGGY, samples[what], samples[PLUGGY], budget=budget)
        for what in (WHAT, ALONE)
    ]
