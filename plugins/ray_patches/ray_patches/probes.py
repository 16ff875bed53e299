"""A worker of Ray, for ``patchcore doctor --workers``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from patchcore.plugin import PROBE_TIMEOUT, Probe, ProbeResult, find_module, probe_process

__all__ = ["probes"]

_OBJECT_STORE = 80 * 1024 * 1024  # bytes; Ray refuses less than 75 MiB


def probes() -> Iterator[Probe]:
    """Yield a task on a cluster that is started for it; none without Ray."""
    if find_module("ray"):
        yield Probe("Ray worker", _in_task)


def _in_task() -> ProbeResult:
    import ray

    options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, "include_dashboard": False}
    ray.init("local", num_cpus=1, object_store_memory=_OBJECT_STORE, **options)
    try:
        sight: ProbeResult = ray.get(ray.remote(probe_process).remote(), timeout=PROBE_TIMEOUT)
        return sight
    finally:
        ray.shutdown()
