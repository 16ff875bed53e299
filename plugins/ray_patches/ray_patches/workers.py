"""A worker of Ray in the report of its process: its node, actor and task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

import patchcore as pc

if TYPE_CHECKING:
    from patchcore.plugin import ProcessReport

__all__ = ["connected", "keep", "section"]

_report: Optional[ProcessReport] = None

_SHORT = 8  # digits of an id


def keep(report: ProcessReport) -> None:
    """Keep the report of this process, for :func:`connected`."""
    global _report
    _report = report


def connected() -> None:
    """Write the report of this worker again, now that Ray knows its node."""
    if _report is not None:
        _report.write()


def section() -> list[pc.Section]:
    """Return the section on this worker; nothing in a driver, and before the worker is connected."""
    import ray

    try:
        if not ray.is_initialized() or ray.get_runtime_context().worker.mode != ray.WORKER_MODE:
            return []
        facts = _facts(ray.get_runtime_context())
    except Exception:  # Ray is shutting down
        return []
    parts = [f"{key} {value}" for key, value in facts.items() if value]
    return [pc.Section("Ray", (", ".join(parts),), data=[facts])]


def _facts(context: Any) -> dict[str, str]:
    actor = context.get_actor_id()
    return {
        "node": str(context.get_node_id())[:_SHORT],
        "worker": str(context.get_worker_id())[:_SHORT],
        "actor": str(context.get_actor_name() or str(actor)[:_SHORT]) if actor else "",
        "task": str(context.get_task_function_name() or "") if not actor and context.get_task_id() else "",
    }
