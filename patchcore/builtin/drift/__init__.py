"""Built-in plugin ``drift``: warns if the target of a patch has changed since the patch was written.

Plugins carry fingerprints of their targets. The remarks compare these with the installed libraries. ``patchcore
fingerprint`` records them, ``patchcore lock`` pins a whole environment, and ``patchcore outdated`` names patches that
can go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional

from patchcore.hookspecs import hookimpl

if TYPE_CHECKING:
    import argparse

    from patchcore.errors import PatchcoreError
    from patchcore.planning.plan import Plan, PlannedPatch
    from patchcore.report import Remark

__all__ = ["refuse_run", "register_commands", "register_run_options", "remarks"]


@hookimpl
def remarks(entry: PlannedPatch, thorough: bool) -> Sequence[Remark]:
    if entry.provenance.file is None:  # fingerprints are stored beside the file of a plugin
        return []
    if entry.patch.only_adds and not thorough:  # what was not there has no fingerprint
        return []
    from patchcore.builtin.drift.drift import remarks_on  # reads files, so only for plugins that may carry fingerprints

    return remarks_on(entry, thorough=thorough)


@hookimpl
def register_run_options(parser: argparse.ArgumentParser, command: str) -> None:
    if command == "run":
        text = "start nothing where patchcore.lock says something else"
        parser.add_argument("--locked", action="store_true", help=text)


@hookimpl(optionalhook=True)
def refuse_run(options: argparse.Namespace, plan: Plan) -> Optional[PatchcoreError]:
    if not getattr(options, "locked", False):
        return None
    from pathlib import Path

    from patchcore.builtin.drift.lockfile import find_lock, refuse_differences
    from patchcore.errors import PatchError, SettingsError

    try:
        refuse_differences(find_lock(options.project, Path.cwd()), plan)
    except (PatchError, SettingsError) as error:
        return error
    return None


@hookimpl
def register_commands(subparsers: Any) -> None:
    subparsers.add_parser(
        "lock", group="trust", help="write patchcore.lock, or compare it with what is installed", fill=_lock
    )
    subparsers.add_parser(
        "outdated",
        group="trust",
        help="show patches that are no longer needed",
        fill=_outdated,
    )
    subparsers.add_parser(
        "fingerprint",
        group="write",
        help="record what targets look like, for check",
        fill=_fingerprint,
    )


def _lock(parser: argparse.ArgumentParser) -> None:
    from patchcore.builtin.drift import lock_command

    lock_command.add_arguments(parser)


def _outdated(parser: argparse.ArgumentParser) -> None:
    from patchcore.builtin.drift import outdated_command

    outdated_command.add_arguments(parser)


def _fingerprint(parser: argparse.ArgumentParser) -> None:
    from patchcore.builtin.drift import fingerprint_command

    fingerprint_command.add_arguments(parser)
