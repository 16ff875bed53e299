"""distributions.py: plain versions are compared as packaging compares them."""

from __future__ import annotations

import itertools

import pytest
from packaging.specifiers import SpecifierSet

from patchcore.planning.distributions import is_in, parse_requirement

RELEASES = ["0", "1.9.9", "2", "2.0", "2.0.0", "2.00.1", "02.1", "10.0", "2." + "1" * 12]
LOCAL = [f"{release}+{local}" for release in ("2.0", "2.0.1") for local in ("cpu", "cu118", "abc.1", "1-2_b")]
OTHERS = ["2.0rc1", "2.0.post1", "2.0.dev1", "1!2.0", "v2.0", " 2.0 ", "2.0a1+cpu", "2.0+CPU"]
SIGNS = [">=", "<=", "==", "!=", ">", "<", "~=", "==="]
BOUNDS = [*RELEASES[1:], "2.0rc1", "2.0.1rc12", "2.1.0rc2", "2.*", "2.0.post1", "2.0+cpu", "1!2"]


def answer(function, *arguments):
    try:
        return function(*arguments)
    except ValueError as error:
        return type(error)


@pytest.mark.parametrize("version", [*RELEASES, *LOCAL, *OTHERS])
def test_every_version_is_where_packaging_finds_it(version) -> None:
    assert is_in(version, "") == SpecifierSet("").contains(version, prereleases=True)
    for sign, bound in itertools.product(SIGNS, BOUNDS):
        for specifiers in (f"{sign}{bound}", f" {sign} {bound} ,<3", f">=1.0,{sign}{bound}"):
            expected = answer(lambda text: SpecifierSet(text).contains(version, prereleases=True), specifiers)
            assert (specifiers, answer(is_in, version, specifiers)) == (specifiers, expected)


@pytest.mark.parametrize("version", ["trunk", "", "2..0", "2.0+", "٣.0"])
def test_what_is_not_a_version_is_in_no_range(version) -> None:
    try:
        assert not is_in(version, ">=1")
    except ValueError:
        pass


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("mmcv", ("mmcv", "", True)),
        (" mmcv-full >= 1.3, < 2 ", ("mmcv-full", ">= 1.3, < 2 ", True)),
        ("mmcv~=2.0", ("mmcv", "~=2.0", True)),
        ("mmcv>=2; python_version < '3'", ("mmcv", ">=2", False)),
    ],
)
def test_requirements_are_taken_apart(text, parsed) -> None:
    assert parse_requirement(text) == parsed


@pytest.mark.parametrize(
    "text",
    ["mmcv>>2", "mmcv >=", ">=2", "mmcv==two", "mmcv>=2 <3", "mmcv>=2,<x", "mmcv=2", "mmcv\n", "\nmmcv", "mmcv>=2\n"]
    + ["mmcv\x0b", "mmcv\xa0", "mmcv\u00e9"],
)
def test_a_malformed_requirement_is_refused(text) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        parse_requirement(text)
