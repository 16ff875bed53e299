"""Adds to patchcore: hooks for vendors, the vendors that need no hardware, and its commands."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import patchcore as pc
from npu_graph.vendor import Vendor
from patchcore.plugin import Plugins


@pc.hookimpl
def register_hookspecs() -> Any:
    """Bring ``register_vendors`` and ``register_conversions``."""
    from npu_graph import hookspecs

    return hookspecs


@pc.hookimpl
def register_vendors() -> Sequence[Vendor]:
    """Contribute the vendors that run anywhere."""
    from npu_graph.c import VENDOR as C
    from npu_graph.reference import VENDOR as REFERENCE

    return [REFERENCE, C]


@pc.hookimpl(optionalhook=True)
def start_process(patcher: pc.Patcher) -> None:
    """Take the vendors of the plugins that the run has loaded here, local modules among them."""
    from npu_graph.registry import use

    use(patcher.plugins)


@pc.hookimpl
def list_sections(plugins: Plugins) -> Sequence[pc.Section]:
    """List the vendors, and their names for ``torch.compile``."""
    from npu_graph.listing import list_vendors

    return [list_vendors(plugins)]


@pc.hookimpl
def report_sections() -> Sequence[pc.Section]:
    """Return a section with the graphs that were compiled in this process; an empty list without any."""
    from npu_graph.recording import records

    if "npu_graph.pipeline" not in sys.modules or not records():
        return ()
    from npu_graph.listing import summarize

    return [summarize(records())]


@pc.hookimpl
def register_commands(subparsers: Any) -> None:
    """Add ``patchcore graph``."""
    from npu_graph.cli import add_parser

    add_parser(subparsers)
