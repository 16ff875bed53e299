"""Printing: lines, errors, and JSON on request.

Commands print through this module only, because names and messages of others may hold control characters.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from patchcore.objects.printable import printable
from patchcore.report import SCHEMA_VERSION

__all__ = ["print_error", "print_json", "print_line"]


def print_json(content: Mapping[str, Any]) -> None:
    """Print ``content`` with ``schema_version`` to stdout.

    Examples:
        >>> from patchcore.plugin import print_json
        >>> print_json({"price": 3})
        {
          "schema_version": 1,
          "price": 3
        }
    """
    from patchcore.stdlib import json  # most commands print no JSON and need not load it

    print(json.dumps({"schema_version": SCHEMA_VERSION, **content}, indent=2, default=str))


def print_error(text: str, who: str = "patchcore: ") -> None:
    """Print a line to stderr, with the name of the program in front."""
    print(f"{who}{printable(text)}", file=sys.stderr, flush=True)


def print_line(text: str = "", style: str = "") -> None:
    """Print a line, or several: with a style of rich on a terminal, else plain.

    Examples:
        >>> from patchcore.plugin import print_line
        >>> print_line("3 prices")
        3 prices
    """
    text = printable(text)
    if style and sys.stdout.isatty():
        from rich.console import Console
        from rich.text import Text

        Console().print(Text(text, style=style), soft_wrap=True)
    else:
        print(text)
