"""Built-in plugin ``drift``: warns if the target of a patch has changed, or if the patch is no longer needed.

Plugins carry fingerprints of their targets. The remarks compare these with the installed libraries, and ``remove_when``
of each patch with their versions. ``patchcore fingerprint`` records fingerprints, ``patchcore lock`` pins a whole
environment.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional

from patchcore.hookspecs import hookimpl
from patchcore.report import SKIPPED

if TYPE_CHECKING:
    import argparse

    from patchcore.declare.target import Target
    from patchcore.errors import PatchcoreError
    from patchcore.planning.candidates import Candidate
    from patchcore.planning.conditions import Environment
    from patchcore.planning.plan import Plan, PlannedPatch
    from patchcore.report import Remark, Report

__all__ = ["conclusions", "find_home", "refuse_run", "register_commands", "register_run_options", "remarks"]


def _may_have_drifted(candidates: Sequence[Candidate]) -> bool:
    """True if a patch may have fingerprints, which are stored beside its plugin, or declares its end."""
    return any(c.provenance.file or c.patch.remove_when or c.patch.upstream for c in candidates)


@hookimpl(trylast=True, concerns=_may_have_drifted)
def remarks(entry: PlannedPatch, environment: Environment, thorough: bool) -> Sequence[Remark]:
    found: list[Remark] = []
    # a patch that adds names says nothing as long as the library does not have them
    if entry.provenance.file is not None and (thorough or not entry.patch.only_adds or _finds_a_name(entry)):
        from patchcore.builtin.drift.drift import remarks_on  # reads files

        found += remarks_on(entry, environment, thorough=thorough)
    if thorough and (entry.patch.remove_when or entry.patch.upstream):
        from patchcore.builtin.drift.outdated import remarks_on_end

        found += remarks_on_end(entry, environment)
    return found


def _finds_a_name(entry: PlannedPatch) -> bool:
    """True if a name that a patch adds with ``create=True`` existed before it, in a module that is imported."""
    from patchcore.engine.engine import ENGINE
    from patchcore.objects.modules import ABSENT

    for change, target in zip(entry.patch.changes, entry.targets):
        module = sys.modules.get(target.module)  # its body has run; its import may not have ended
        try:
            if module is not None and ENGINE.journal.original(change.find_slot(target, module)) is not ABSENT:
                return True
        except Exception:  # there is no such place
            continue
    return False


@hookimpl(optionalhook=True)
def conclusions(report: Report) -> Sequence[str]:
    """Name the patches whose names the library has now, in the last line of a run."""
    if not any(record.remarks and SKIPPED in {c.status for c in record.changes} for record in report.patches):
        return ()
    from patchcore.builtin.drift.replacements.note import LIBRARY_COUNTS

    names = [r.name for r in report.patches if any(remark.endswith(LIBRARY_COUNTS) for remark in r.remarks)]
    return (f"in the library now, not added: {', '.join(names)}",) if names else ()


@hookimpl(trylast=True)
def find_home(target: Target, far: bool) -> Optional[Target]:
    from patchcore.builtin.drift.homes import read_home  # reads files

    return read_home(target, far=far)


@hookimpl(optionalhook=True)
def register_run_options(parser: argparse.ArgumentParser, command: str) -> None:
    if command == "run":
        text = "refuse to start when patchcore.lock differs from the plan"
        parser.add_argument("--locked", action="store_true", help=text)


@hookimpl(optionalhook=True)
def refuse_run(options: argparse.Namespace, plan: Plan) -> Optional[PatchcoreError]:
    if not getattr(options, "locked", False):
        return None
    from pathlib import Path

    from patchcore.builtin.drift.lockfile import find_lock, refuse_differences, settings_to_lock
    from patchcore.errors import PatchError, SettingsError

    try:
        refuse_differences(find_lock(options.project, Path.cwd()), plan, settings_to_lock(options.patcher))
    except (PatchError, SettingsError) as error:
        return error
    return None


@hookimpl
def register_commands(subparsers: Any) -> None:
    subparsers.add_parser(
        "lock",
        group="trust",
        help="write patchcore.lock, or compare it with this environment",
        example="patchcore lock --check",
        fill="patchcore.builtin.drift.lock_command:add_arguments",
    )
    subparsers.add_parser(
        "fingerprint",
        group="write",
        help="record fingerprints of targets, for check",
        example="patchcore fingerprint --check",
        fill="patchcore.builtin.drift.fingerprint_command:add_arguments",
    )
