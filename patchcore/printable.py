"""Text of others, made fit for a terminal: names, reasons and messages may hold control characters."""

from __future__ import annotations

__all__ = ["printable", "shown"]

#: The control characters that a text may have: ends of lines, and what indents them.
_LAYOUT = "\n\t"


def printable(text: str) -> str:
    r"""Return ``text`` with escapes (``\x1b``) for what a terminal obeys instead of showing, or shows as nothing.

    Those are all characters that Python calls not printable: control characters, ESC among them, marks that turn the
    direction of writing, lone surrogates. Ends of lines and tabs stay.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in _LAYOUT else c.encode("unicode_escape").decode() for c in text)


def shown(value: object) -> str:
    """Return the ``repr`` of an object of others, or only its type where that raises."""
    try:
        return repr(value)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return f"<{type(value).__name__} object whose repr raises {type(error).__name__}>"
