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
    """Return further kinds of child process; ``patchcore doctor --workers`` starts one of each and inspects it.

    Called in a process of a run. A probe uses ``look`` and ``in_python`` of ``patchcore.builtin.doctor.probe``.
    """
