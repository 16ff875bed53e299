"""The result of the ``apply()`` of a patch."""

from mx_driving_compat.messages.results import PatchResult, PatchStatus

__all__ = ["PatchResult", "PatchStatus"]
