"""What a hook is told besides the patch."""

from __future__ import annotations

from typing import Any, NamedTuple

from patchcore.planning.plan import Plan
from patchcore.planning.provenance import Provenance
from patchcore.settings import Settings

__all__ = ["Context"]


class Context(NamedTuple):
    """What a hook is told besides the patch.

    Args:
        provenance: who contributes the patch.
        settings: what the user decided.
        plan: the plan that is being applied.
        patcher: the :class:`~patchcore.Patcher` that applies the patch; several may share one plugin.
    """

    provenance: Provenance
    settings: Settings
    plan: Plan
    patcher: Any
