"""What programs show on a terminal that a test has made."""

from __future__ import annotations

import os

__all__ = ["read_terminal"]


def read_terminal(ours: int) -> str:
    """Return what was shown until the other side of a pseudo-terminal is closed; close this side."""
    shown = b""
    while True:
        try:
            chunk = os.read(ours, 65536)
        except OSError:  # Linux says so when the other side is closed
            break
        if not chunk:
            break
        shown += chunk
    os.close(ours)
    return shown.decode()
