"""Text for people: names and messages of others without control characters, and counts with their nouns."""

from __future__ import annotations

import re

__all__ = ["counted", "inflected", "printable", "shown", "without_addresses"]

#: Accepted though Python calls them not printable: ends of lines, tabs, and spaces that are not ASCII's.
_LAYOUT = frozenset("\n\t\xa0\u1680\u202f\u205f\u3000") | frozenset(map(chr, range(0x2000, 0x200B)))


def printable(text: str) -> str:
    r"""Return ``text`` with escapes (``\x1b``) for characters that a terminal obeys, or does not show.

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


def without_addresses(text: str) -> str:
    """Return ``text`` without the addresses of objects, which differ from process to process."""
    return re.sub(r" at 0x[0-9A-Fa-f]+", "", text)


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun: ``1 patch``, ``2 patches``, ``1,000 patches``.

    Args:
        count: how many.
        noun: in the singular, with an adjective before it or a verb after it.
        plural: where :func:`inflected` cannot form it: of ``place needs``, for example.

    Examples:
        >>> from patchcore.plugin import counted
        >>> counted(1, "patch"), counted(1000, "patch")
        ('1 patch', '1,000 patches')
    """
    return f"{count:,} {inflected(count, noun, plural)}"


def inflected(count: int, noun: str, plural: str = "") -> str:
    """Return ``noun`` for one thing, else its plural: ``patches``, ``libraries``, ``files``, or ``plural`` if given."""
    if count == 1 or plural:
        return noun if count == 1 else plural
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"
