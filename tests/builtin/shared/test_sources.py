"""Sources of others are read without their warnings."""

from __future__ import annotations

import ast
import warnings

import pytest

from patchcore.builtin.shared.sources import parse_source


@pytest.mark.parametrize("source", ['x = "\\d"\n', b'x = "\\d"\n', "1 is 1\n"])
def test_warnings_about_the_source_of_others_are_not_shown(source: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(parse_source(source), ast.Module)


def test_an_error_names_the_file() -> None:
    with pytest.raises(SyntaxError) as e:
        parse_source("def f(:\n", "theirs.py")
    assert e.value.filename == "theirs.py"
