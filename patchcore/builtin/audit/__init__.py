"""Built-in plugin ``audit``: lists every monkey patch in a process, whoever made it.

``patchcore audit`` and ``patchcore run --audit`` start the record in each process of a program, before its imports;
``patchcore.audit()`` does in a process without ``patchcore run``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from patchcore.builtin.shared import examples
from patchcore.hookspecs import hookimpl

if TYPE_CHECKING:
    import argparse

    from patchcore.report import Section

__all__ = [
    "configure_run",
    "process_patched",
    "register_commands",
    "register_hookspecs",
    "register_run_options",
    "report_sections",
]


@hookimpl
def register_hookspecs() -> Any:
    from patchcore.builtin.audit import hookspecs

    return hookspecs


@hookimpl
def register_commands(subparsers: Any) -> None:
    subparsers.add_parser(
        "audit",
        group="find out",
        help="list every monkey patch in a program, whoever made it",
        example=examples.AUDIT,
        add_help=False,
        take_over="patchcore.builtin.audit.command:parse",
        fill="patchcore.builtin.audit.command:add_arguments",
    )


@hookimpl
def register_run_options(parser: argparse.ArgumentParser, command: str) -> None:
    if command == "run":
        parser.add_argument(
            "--audit", action="store_true", help="add every monkey patch, whoever made it, to the reports of processes"
        )


@hookimpl
def configure_run(options: argparse.Namespace) -> None:
    if getattr(options, "audit", False):
        from patchcore.builtin.audit.recorder import RECORDER

        RECORDER.start()
        RECORDER.looking = False  # plugins import before the program does


@hookimpl
def process_patched(patcher: Any) -> None:
    from patchcore.builtin.audit.sections import audit_at_the_end

    audit_at_the_end(patcher)


@hookimpl
def report_sections() -> Iterable[Section]:
    from patchcore.builtin.audit.sections import sections

    return sections()
