"""What became of one patch, as the 2.0 API tells it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Optional

__all__ = ["PatchResult", "PatchStatus"]


class PatchStatus(Enum):
    """What became of a patch."""

    APPLIED = "applied"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass
class PatchResult:
    """What ``apply()`` of a patch returns.

    Args:
        status: what became of it.
        name: of the patch; for an atomic patch its target.
        module: the library it belongs to, ``"mmcv"``.
        reason: why it is not applied.
    """

    status: PatchStatus
    name: str
    module: str
    reason: Optional[str] = None
