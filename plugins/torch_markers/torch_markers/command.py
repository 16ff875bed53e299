"""Adds markers to the command line: ``patchcore run --markers`` and ``patchcore markers summary``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Optional

import patchcore as pc
from torch_markers import ranges as markers
from torch_markers.options import BACKENDS, LEVELS, ORDERS, VIEWS, MarkerOptions, from_environment
from torch_markers.patches import make_patches

__all__ = ["configure", "configured_patches", "register_command", "register_options"]

#: The options of the run, in each of its processes; ``None`` without markers.
_asked: Optional[Mapping[str, Any]] = None


def register_options(parser: argparse.ArgumentParser) -> None:
    """Add the options to ``patchcore run``."""
    group = parser.add_argument_group(
        "markers",
        "Ranges for profilers. Also PATCHCORE_MARKERS, PATCHCORE_MARKERS_LEVEL, ..., and "
        f'[tool.patchcore.options."{markers.OPTIONS}"].',
    )
    group.add_argument("--markers", choices=BACKENDS, metavar="BACKEND", help=f"make ranges, by {', '.join(BACKENDS)}")
    group.add_argument("--markers-level", choices=LEVELS, help="what is marked (default: all)")
    group.add_argument("--markers-directory", metavar="DIR", help="where trace writes (default: markers)")
    for what in ("stacks", "arguments", "backward"):
        group.add_argument(
            f"--markers-no-{what}", dest=f"markers_{what}", action="store_false", default=None, help=_WITHOUT[what]
        )


_WITHOUT = {
    "stacks": "leave out the lines of the program that have led to a call",
    "arguments": "leave out the arguments of calls",
    "backward": "leave the backward pass unmarked",
}


def configure(options: argparse.Namespace) -> None:
    """Keep the options of the command line for :func:`configured_patches`, which is called next."""
    global _asked
    given = {name: getattr(options, _option(name)) for name in MarkerOptions.names()}
    given = {name: value for name, value in given.items() if value is not None}
    _asked = given or None


def _option(name: str) -> str:
    return "markers" if name == "backend" else f"markers_{name}"


def configured_patches(settings: pc.Settings) -> tuple[pc.Patch, ...]:
    """Return the patches under the options of the command line, environment variables and settings, in this order."""
    options = {**settings.options.get(markers.OPTIONS, {}), **from_environment(), **(_asked or {})}
    asked = "backend" in {**from_environment(), **(_asked or {})}
    return make_patches(options, wanted=asked)


def register_command(subparsers: Any) -> None:
    """Add ``patchcore markers summary``."""
    parser = subparsers.add_parser(
        "markers",
        group="find out",
        help="sum up the markers in traces, by module, operator and line",
        example="patchcore markers summary trace.json",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    summary = commands.add_parser(
        "summary",
        example="patchcore markers summary trace.json --by module",
        help="time per module, operator and line of the program",
        description="Sum up the markers in chrome traces: of torch.profiler and torch_npu.profiler under --markers "
        "record_function, and of --markers trace. Times are those of the host: on a device, which runs behind, the "
        "times in which its work is started.",
    )
    summary.add_argument("traces", nargs="+", metavar="TRACE", help="files, .gz too, and directories of them")
    summary.add_argument("--by", choices=VIEWS, action="append", help="one table only; may be repeated (default: all)")
    summary.add_argument("--sort", choices=ORDERS, default="self", help="longest first, by (default: self)")
    summary.add_argument("--top", type=int, default=20, metavar="N", help="lines per table, 0 for all (default: 20)")
    summary.add_argument("--format", choices=("table", "json"), default="table", help="how to print (default: table)")
    summary.set_defaults(command=_summarise)


def _summarise(options: argparse.Namespace) -> int:
    from torch_markers.summarising import summarise  # for those who want one

    return summarise(options)
