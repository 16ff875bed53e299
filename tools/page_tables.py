"""What the tools that write the tables of a page have in common: the option ``--check``."""

from __future__ import annotations

import sys
from pathlib import Path


def update(page: Path, rendered: str) -> int:
    """Write a page; with ``--check`` on the command line, only return 1 if it is out of date."""
    if sys.argv[1:] == ["--check"]:
        return int(page.read_text(encoding="utf-8") != rendered)
    page.write_text(rendered, encoding="utf-8")
    return 0
