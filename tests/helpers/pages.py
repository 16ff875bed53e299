"""Read the fenced blocks of a page: files, and sessions with what their commands print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["Block", "blocks", "split"]


class Block(NamedTuple):
    """A fenced block of a page: its language, the name of the file it is the content of, if any, and its text."""

    language: str
    file: str
    text: str


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page. A line before a block that is a name in backquotes names its file."""
    text = page.read_text(encoding="utf-8")
    for match in re.finditer(r"(?:^`([\w./-]+)`:\n\n)?^```(\w+)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE):
        file, language, content = match.groups()
        yield Block(language, file or "", content)


def split(session: str) -> list[tuple[str, str]]:
    """Return the commands of a session and what is shown of each."""
    parts = re.split(r"^\$ (.*)\n", session, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2]))
