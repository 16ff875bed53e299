"""Text of others, made fit to be seen: what a report says may be anything."""

from __future__ import annotations

import re

__all__ = ["visible"]

# Controls, halves of pairs, non-characters, and what turns the direction of the text around it.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def visible(text: str) -> str:
    """Return ``text`` with escape sequences for characters that a terminal or a page would obey, or not show."""
    return _UNSEEN.sub(lambda match: match[0].encode("unicode-escape").decode("ascii"), text)
