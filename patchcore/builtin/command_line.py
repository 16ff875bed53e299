"""What several commands share besides the options of the core."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Optional

from patchcore.patcher import Patcher

__all__ = ["describe_problems", "parse"]


def parse(parser: argparse.ArgumentParser, arguments: Sequence[str], patcher: Patcher) -> argparse.Namespace:
    """Parse options of which plugins have added some; exit like argparse where one is unknown, with a hint.

    Args:
        parser: with the options of the plugins that are loaded.
        arguments: to parse.
        patcher: with these plugins.
    """
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        allowed = patcher.settings.plugins
        hint = ""
        if allowed is not None:
            hint = f"; of the plugins that may add options, {', '.join(allowed) or 'none'} may be loaded (see --plugin)"
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
    return options


def describe_problems(patcher: Patcher) -> list[dict[str, Optional[str]]]:
    """Return what is wrong with plugins, for JSON."""
    return [
        {
            "plugin": p.plugin,
            "distribution": p.distribution,
            "version": p.version,
            "where": p.where,
            "message": p.message,
        }
        for p in patcher.plugins.problems
    ]
