"""Standard streams of a command, which print any text in any encoding."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

__all__ = ["streams_that_take_any_text"]

#: Handlers of characters that an encoding does not have, which raise for some of them.
_RAISING = ("strict", "surrogateescape", "surrogatepass")


@contextlib.contextmanager
def streams_that_take_any_text() -> Iterator[None]:
    """In this block, stdout and stderr print characters that their encoding does not have as escapes, ``\\xfc``.

    A folder may be called ``für``, and a report may have half of a pair of surrogates, where the encoding is ASCII:
    under ``PYTHONIOENCODING=ascii``, or in a Windows terminal with an old code page. A stdout that was closed takes any
    text, too.
    """
    stdout = sys.stdout
    if stdout is None:  # it was closed
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    changed = []
    for stream in (sys.stdout, sys.stderr):
        errors = getattr(stream, "errors", None)
        if errors in _RAISING and hasattr(stream, "reconfigure"):
            with contextlib.suppress(OSError, ValueError):  # it is closed, or nobody reads it any more
                stream.reconfigure(errors="backslashreplace")
                changed.append((stream, errors))
    try:
        yield
    finally:
        for stream, errors in changed:
            with contextlib.suppress(OSError, ValueError):
                stream.reconfigure(errors=errors)
        if stdout is None:
            sys.stdout.close()
            sys.stdout = stdout
