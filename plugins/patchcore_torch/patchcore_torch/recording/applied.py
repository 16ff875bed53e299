"""The patches of this process, which the last line of a recording names."""

from __future__ import annotations

from typing import Optional

from patchcore import Patcher

__all__ = ["applied_patches", "remember"]

_patcher: Optional[Patcher] = None


def remember(patcher: Patcher) -> None:
    """Keep the Patcher of this process, whose patches the last line of a recording names."""
    global _patcher
    _patcher = patcher


def applied_patches() -> dict[str, list[str]]:
    """Return the patches that are applied in this process, but those of patchcore itself, with their targets."""
    if _patcher is None:
        return {}
    return {
        record.name: [change.target for change in record.changes if change.target]
        for record in _patcher.report().patches
        if record.status == "applied" and not record.name.startswith("patchcore.")
    }
