"""The hook that the plugin ``doctor`` brings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from patchcore.hookspecs import hookspec

if TYPE_CHECKING:
    from patchcore.builtin.doctor.probe import Probe

__all__ = ["child_probes"]


@hookspec
def child_probes() -> Iterable[Probe]:  # type: ignore[empty-body]
    """Return further kinds of child process that ``patchcore doctor --workers`` starts one of and looks into.

    Called in a process of a run. ``patchcore.builtin.doctor.probe`` has what a probe needs: ``look``, ``in_python``.
    """
