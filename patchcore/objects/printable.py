"""Text of others, made fit for a terminal: names, reasons and messages may hold control characters."""

from __future__ import annotations

__all__ = ["printable", "shown"]

#: What a text may have though Python calls it not printable: ends of lines, tabs, and spaces that are not ASCII's.
_LAYOUT = frozenset("\n\t\xa0\u1680\u202f\u205f\u3000") | frozenset(map(chr, range(0x2000, 0x200B)))


def printable(text: str) -> str:
    r"""Return ``text`` with escapes (``\x1b``) for what a terminal obeys instead of showing, or shows as nothing.

    Those are all characters that Python calls not printable: control characters, ESC among them, marks that turn the
    direction of writing, lone surrogates. Ends of lines, tabs and spaces such as U+3000 of Chinese texts stay.
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
