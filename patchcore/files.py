"""Writing files so that nobody ever reads half of one."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` in UTF-8, whole or not at all: what was there stays until the new file is complete.

    Raises:
        OSError: it cannot be written; nothing is left behind.
    """
    partial = path.with_name(f"{path.name}.part")
    try:
        partial.write_bytes(text.encode("utf-8"))
        os.replace(partial, path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
