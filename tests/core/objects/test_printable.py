"""Text for people: counts with their nouns."""

from __future__ import annotations

import pytest

from patchcore.objects.printable import counted, inflected


@pytest.mark.parametrize(
    ("count", "noun", "expected"),
    [
        (0, "patch", "0 patches"),
        (1, "patch", "1 patch"),
        (2, "patch", "2 patches"),
        (12345, "call", "12,345 calls"),
        (2, "more process", "2 more processes"),
        (2, "library", "2 libraries"),
        (2, "array", "2 arrays"),
        (2, "box", "2 boxes"),
        (2, "hash", "2 hashes"),
    ],
)
def test_a_count_has_the_noun_in_its_number(count: int, noun: str, expected: str) -> None:
    assert counted(count, noun) == expected


def test_a_plural_may_be_given() -> None:
    assert counted(1, "place needs", "places need") == "1 place needs"
    assert counted(3, "place needs", "places need") == "3 places need"
    assert inflected(3, "place needs", "places need") == "places need"
