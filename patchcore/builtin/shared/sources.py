"""Parses the source of others to a syntax tree."""

from __future__ import annotations

import ast
import warnings
from typing import Union

__all__ = ["parse_source"]


def parse_source(source: Union[str, bytes], name: str = "<unknown>") -> ast.Module:
    r"""Parse a module without the warnings that are for its authors: ``"\d"`` warns from Python 3.12 on.

    Args:
        source: of the module.
        name: of its file, for error messages.

    Raises:
        SyntaxError, ValueError, RecursionError: see :func:`ast.parse`.

    Examples:
        >>> import ast
        >>> from patchcore.plugin import parse_source
        >>> ast.unparse(parse_source("price=3"))
        'price = 3'
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source, name)
