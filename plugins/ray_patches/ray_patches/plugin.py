"""The entry point ``ray``: the patch of ``ray.init``, the processes of Ray, and a section of its workers in reports.

It imports ray only in a process that has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import patchcore as pc
from patchcore.plugin import Engine

if TYPE_CHECKING:
    from patchcore.plugin import Probe, ProcessReport

__all__ = ["child_probes", "process_patched", "register_engines", "register_patches", "report_sections"]

INIT = pc.Patch(
    "ray.init",
    summary="Ray's workers take part in the run, on a cluster that was there before, too",
    requires="ray>=2.40",
    changes=[pc.Wrap("ray._private.worker:init", "ray_patches.handing_on:init")],
)

#: Ray 2.60. The first script becomes the second in the environment of a worker.
RAY = Engine(
    "ray",
    workers=(
        "ray/_private/workers/default_worker.py",
        "ray/util/client/server/__main__.py",  # of a program that is connected by Ray Client
    ),
    daemons=(
        "ray/_private/workers/setup_worker.py",
        "ray/_private/log_monitor.py",
        "ray/_private/process_watcher.py",
        "ray/_private/ray_process_reaper.py",
        "ray/_private/runtime_env/agent/main.py",
        "ray/autoscaler/_private/monitor.py",
        "ray/autoscaler/v2/monitor.py",
        "ray/dashboard/agent.py",
        "ray/dashboard/dashboard.py",
    ),
)


@pc.hookimpl
def register_patches() -> list[pc.Patch]:
    """Return the patch of ``ray.init``."""
    return [INIT]


@pc.hookimpl(optionalhook=True)  # of the built-in plugin run, which may be left out; the same below
def register_engines() -> list[Engine]:
    """Return the description of Ray's processes."""
    return [RAY]


@pc.hookimpl(optionalhook=True)
def process_patched(report: ProcessReport) -> None:
    """Keep the report of this process: a worker writes it again once it is connected."""
    from ray_patches import workers

    workers.keep(report)


@pc.hookimpl
def report_sections() -> list[pc.Section]:
    """Return the section on this worker, if it is one that is connected."""
    if "ray" not in sys.modules:
        return []
    from ray_patches.workers import section

    return section()


@pc.hookimpl(optionalhook=True)
def child_probes() -> Iterable[Probe]:
    """Yield a worker of Ray, for ``patchcore doctor --workers``."""
    from ray_patches.probes import probes

    yield from probes()
