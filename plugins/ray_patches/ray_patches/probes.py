"""Workers of Ray, for ``patchcore doctor --workers``: one on each node of the cluster that ``RAY_ADDRESS`` names.

Without the variable, one on a cluster that is started for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

from patchcore.plugin import PROBE_TIMEOUT, Probe, ProbeResult, find_module, probe_process

__all__ = ["probes"]

_OBJECT_STORE = 80 * 1024 * 1024  # bytes; Ray refuses less than 75 MiB


def probes() -> Iterator[Probe]:
    """Yield a worker on each node; none without Ray."""
    if not find_module("ray"):
        return
    address = os.environ.get("RAY_ADDRESS", "")
    if not address or address == "local" or address.startswith("ray://"):  # a client has no tasks on chosen nodes
        yield Probe("Ray worker", _in_task)
        return
    import ray

    try:
        ray.init(log_to_driver=False, configure_logging=False)
        nodes = [node for node in ray.nodes() if node["Alive"]]
    except Exception as error:
        yield Probe(f"Ray workers of {address}", partial(_fail, error))
        return
    for node in nodes:
        yield Probe(
            f"Ray worker, {node['NodeManagerHostname']} {node['NodeID'][:8]}", partial(_on_node, node["NodeID"])
        )


def _in_task() -> ProbeResult:
    import ray

    options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False, "include_dashboard": False}
    ray.init("local", num_cpus=1, object_store_memory=_OBJECT_STORE, **options)
    try:
        sight: ProbeResult = ray.get(ray.remote(probe_process).remote(), timeout=PROBE_TIMEOUT)
        return sight
    finally:
        ray.shutdown()


def _on_node(node: str) -> ProbeResult:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    def look() -> Any:  # is sent by value, as the node may have no patchcore
        import sys

        try:
            from patchcore.plugin import probe_process
        except ImportError as error:
            return f"{sys.executable}: {error}; install patchcore and the plugins of the program there"
        return probe_process()

    there = NodeAffinitySchedulingStrategy(node, soft=False)
    task = ray.remote(look).options(num_cpus=0, max_retries=0, scheduling_strategy=there)
    sight: Any = ray.get(task.remote(), timeout=PROBE_TIMEOUT)
    if isinstance(sight, str):
        raise RuntimeError(sight)
    return None if sight is None else dict(sight)


def _fail(error: Exception) -> ProbeResult:
    raise error
