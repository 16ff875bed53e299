"""What the ``apply()`` of a patch returns."""

from mx_driving_compat.messages.results import PatchResult, PatchStatus

__all__ = ["PatchResult", "PatchStatus"]
