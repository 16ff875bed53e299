"""The model."""

from __future__ import annotations


def attention() -> str:
    """Return which attention is computed."""
    return "attention of the GPU"
