"""The errors of the fake CANN."""

from __future__ import annotations

__all__ = ["FakeCannError", "RealCannError"]


class FakeCannError(RuntimeError):
    """The fake CANN cannot be used here, or not with these settings; the message has the remedy."""


class RealCannError(FakeCannError):
    """There is a real CANN or a real NPU, which a fake one must never hide."""
