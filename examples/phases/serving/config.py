"""The settings of the server, which depend on the platform."""

from __future__ import annotations

from serving import model


def find_platform() -> str:
    """Return the platform; plugins of the server have a say here."""
    return "gpu"


def block_size() -> int:
    """Return how many tokens a block of the cache holds."""
    return 16


def describe() -> str:
    """Return what this process computes with."""
    return f"block size {block_size()}, {model.attention()}"
