"""The outcome of one patch, as API 2.0 returns it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Optional

__all__ = ["PatchResult", "PatchStatus"]


class PatchStatus(Enum):
    """The status of a patch."""

    APPLIED = "applied"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass
class PatchResult:
    """The return value of a patch's ``apply()``.

    Args:
        status: applied, skipped or failed.
        name: of the patch; for an atomic patch its target.
        module: the library it belongs to, ``"mmcv"``.
        reason: why it is not applied.
    """

    status: PatchStatus
    name: str
    module: str
    reason: Optional[str] = None
