"""Reads the events of a chrome trace one by one: those of a long run do not fit in memory at once."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
from collections.abc import Iterator
from typing import IO, Any, Callable

from patchcore import PatchcoreError

__all__ = ["TraceError", "events"]

_CHUNK = 1 << 20
#: The text before the events in the object form of a trace (Trace Event Format); the array form begins with them.
_BEGINNING = re.compile(r'\s*\[|.*?"traceEvents"\s*:\s*\[', re.DOTALL)
_BETWEEN = re.compile(r"[\s,]*")
#: How much of a file may come before its events.
_LONGEST_BEGINNING = 64 << 20


class TraceError(PatchcoreError):
    """A file is no chrome trace, or no valid JSON."""


def events(path: str, advance: Callable[[int], None] = lambda count: None) -> Iterator[Any]:
    """Yield the events of a trace; of a truncated file, its complete events.

    Args:
        path: of the file, which may be compressed by gzip.
        advance: called with the number of bytes of the file that were read since it was called last.

    Raises:
        TraceError: the file cannot be read, or is no chrome trace; with the place.
    """
    try:
        with open(path, "rb") as raw:
            head = raw.read(2)
            raw.seek(0)
            with _opened(raw, head) as file:
                yield from _decoded(path, _chunks(raw, file, advance))
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise TraceError(f"{path} cannot be read: {error}") from error


def _opened(raw: IO[bytes], head: bytes) -> IO[str]:
    binary: Any = gzip.GzipFile(fileobj=raw) if head == b"\x1f\x8b" else raw
    return io.TextIOWrapper(binary, encoding="utf-8", errors="replace")


def _chunks(raw: IO[bytes], file: IO[str], advance: Callable[[int], None]) -> Iterator[str]:
    read = 0
    while True:
        chunk = file.read(_CHUNK)
        position = raw.tell()
        advance(position - read)
        read = position
        if not chunk:
            return
        yield chunk


def _decoded(path: str, chunks: Iterator[str]) -> Iterator[Any]:
    buffer = ""
    beginning = None
    for chunk in chunks:
        buffer += chunk
        beginning = _BEGINNING.match(buffer)
        if beginning is not None or len(buffer) > _LONGEST_BEGINNING:
            break
    if beginning is None:
        raise TraceError(f'{path} is no chrome trace: expected a JSON object with "traceEvents", or a JSON array')
    decode = json.JSONDecoder(strict=False).raw_decode
    position, dropped = beginning.end(), 0
    while True:
        match = _BETWEEN.match(buffer, position)
        position = position if match is None else match.end()
        if position < len(buffer):
            if buffer[position] == "]":
                return
            try:
                event, position = decode(buffer, position)
                yield event
                continue
            except ValueError as error:
                failure = error
        chunk = next(chunks, "")
        if not chunk:
            if position < len(buffer) and _is_broken(buffer, position):
                raise TraceError(
                    f"{path} is no valid JSON at character {dropped + position}: {failure}: "
                    f"{buffer[position : position + 80]!r}"
                )
            return
        dropped += position
        buffer, position = buffer[position:] + chunk, 0


def _is_broken(buffer: str, position: int) -> bool:
    """Return whether an event that cannot be decoded is followed by others, so that it was not merely cut off."""
    return re.search(r"}\s*,\s*{", buffer[position:]) is not None


def size_of(path: str) -> int:
    """Return the size of a file in bytes, 0 where it is unknown."""
    try:
        return os.path.getsize(path)
    except OSError:
        return 0
