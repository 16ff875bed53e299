"""``patchcore plan --compat mindspeed -- ARGUMENTS``: the features that the arguments switch on, and their patches.

Runs in a process of a run. Each feature is called as MindSpeed's adaptor calls it, and the patches are applied in this
process, which ends then: Megatron is imported with the dummies in force, and signatures are those of this Megatron.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import sys
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from typing import Any, NamedTuple, Optional

from mindspeed_compat import feature_patches, install, takeover_in_effect
from mindspeed_compat.against import Drift, compare
from mindspeed_compat.declared import base_name, patch_name
from mindspeed_compat.locating import locate
from mindspeed_compat.plugin import plan_options
from mindspeed_compat.registrations import MANAGER, Registration, RivalFeatures
from mindspeed_compat.takeover import Takeover
from patchcore import Patch, PatchcoreError, Patcher, PatchError, Target, UnknownName, original
from patchcore.plugin import (
    EXIT_FINDINGS,
    EXIT_OK,
    ChangeRecord,
    SlotChange,
    counted,
    describe_error,
    did_you_mean,
    print_line,
    print_message,
    print_table,
    qualified_name,
)

__all__ = ["FeaturePlan", "explain", "main", "make_plan"]

_EXIT_USAGE = 2
_PHASES = ("pre_register_patches", "register_patches")


class _Trial(Patcher):
    """Applies a patch for a moment; reports leave it out."""

    has_own_report = True


class FeaturePlan(NamedTuple):
    """The features that arguments switch on, and the patches that they register.

    Args:
        known: how many features MindSpeed has.
        needed: the features that the arguments switch on, by name.
        registrations: all calls of ``register_patch``.
        rivals: targets that two features replace: MindSpeed ends the program there.
        unreported: findings that MindSpeed does not report: two spellings of a place, replacements that are replaced.
        missing: targets that do not exist here, each with its features and the reason.
        added: targets that exist nowhere, and are added.
        signatures: replacements that do not accept every call of their target.
        failed: features and patches that raise.
        disabled: the features that the user has disabled.
        targets: the place of each target, by its text.
    """

    known: int
    needed: list[str]
    registrations: list[Registration]
    rivals: list[str]
    unreported: list[str]
    missing: list[tuple[str, str, str]]
    added: list[str]
    signatures: list[str]
    failed: list[str]
    disabled: list[str]
    targets: dict[str, Target]


def make_plan() -> FeaturePlan:
    """Call the features for the arguments of this process, apply their patches, and return the plan."""
    install()
    takeover = takeover_in_effect()
    assert takeover is not None
    arguments = importlib.import_module("mindspeed.args_utils").get_mindspeed_args()
    features = importlib.import_module("mindspeed.features_manager.features_manager").MindSpeedFeaturesManager
    manager = importlib.import_module(MANAGER).MindSpeedPatchesManager
    needed = [feature for feature in features.FEATURES_LIST if feature.is_need_apply(arguments)]
    names = [feature.feature_name for feature in needed]
    plan = FeaturePlan(len(features.FEATURES_LIST), names, [], [], [], [], [], [], [], list(takeover.disabled), {})
    for phase in _PHASES:
        for feature in needed:
            try:
                getattr(feature, phase)(manager, arguments)
            except RivalFeatures as rivals:
                plan.rivals.append(str(rivals))
            except Exception as error:
                plan.failed.append(f"feature {feature.feature_name}: {describe_error(error)}")
        _leave_out_missing(takeover, manager.patches_info, plan)
        declared = takeover.declare(takeover.news())
        plan.added.extend(declared.added)
        plan.targets.update((text, place.target) for text, place in declared.places.items() if place.module is None)
        patches = [candidate.patch for candidate in declared.candidates]
        plan.signatures.extend(_misfits(patches, {each.target for each in takeover.registrations}))
        try:
            manager.apply_patches()
        except Exception as error:
            plan.failed.append(describe_error(error))
    plan.registrations.extend(takeover.registrations)
    plan.unreported.extend(takeover.remarks)
    return plan


def _leave_out_missing(takeover: Takeover, table: dict[str, Any], plan: FeaturePlan) -> None:
    """Remove the entries from MindSpeed's table whose targets do not exist here, and note them."""
    for entry in takeover.news():
        made = (takeover.registrations.find(entry.patch, function) for function in entry.functions)
        owners = ", ".join(sorted({str(each.owner) for each in made if each is not None}))
        try:
            place = locate(entry.text, create_dummy=entry.patch.create_dummy)
        except ImportError as error:
            reason = describe_error(error).partition(", for the target ")[0]
            plan.missing.append((entry.text, owners, reason))
            del table[entry.text]
            continue
        problem = place.problem
        if not place.exists and not place.is_in_module and not entry.patch.create_dummy:
            problem = f"{place.target.path[-2]} has no {place.target.path[-1]}"
        if problem:
            plan.missing.append((entry.text, owners, problem))
            del table[entry.text]


def _misfits(patches: Iterable[Patch], registered: Container[str]) -> list[str]:
    """Return the replacements that do not accept every call of their targets: each is applied alone, and reverted.

    Args:
        patches: not yet in force.
        registered: the targets in MindSpeed's notation; other changes are further names of one of these.
    """
    found = []
    logger = logging.getLogger("patchcore")
    before, logger.disabled = logger.disabled, True
    for patch in patches:
        for change in patch.changes:
            text = str(change.target).replace(":", ".")
            if isinstance(change, SlotChange) and not change.may_be_absent and text in registered:
                trial = Patch(patch.name, change.evolve(signatures="fit"), signatures="fit")
                try:
                    with _Trial([trial], strict=True):
                        pass
                except PatchError as error:
                    found.append(_shortened(str(error), patch.name))
    logger.disabled = before
    return found


def _shortened(message: str, name: str) -> str:
    """Return the message of a patch that failed, without its advice for authors of patches."""
    return f"{name}: {message.partition(' failed: ')[2] or message}".partition("; give it the parameters")[0]


def _print(plan: FeaturePlan) -> None:
    targets = {each.target for each in plan.registrations}
    registering = dict.fromkeys(each.owner for each in plan.registrations)
    print_line(
        f"{counted(plan.known, 'feature')}, {len(plan.needed)} needed with these arguments: {len(registering)} "
        f"register {counted(len(plan.registrations), 'patch')} of {counted(len(targets), 'target')}"
    )
    print_line()
    print_table("Features", ["FEATURE", "REPLACES", "WRAPS", "MAKES", "CLASS"], _rows(plan, registering))
    for owner in registering:
        print_line()
        print_line(f"{owner.name}", "bold")
        for each in plan.registrations:
            if each.owner == owner:
                verb = "wraps" if each.wraps else "makes" if each.create_dummy else "replaces"
                print_line(f"  {verb} {each.target}")
    for title, lines in (
        ("Two features replace one target: the program ends here", plan.rivals),
        ("MindSpeed does not report these", plan.unreported),
        ("Targets that do not exist here", _grouped(plan.missing)),
        ("Attributes that do not exist, and are added", plan.added),
        ("Replacements that do not accept every call of their target", plan.signatures),
        ("Failures", plan.failed),
        ("Disabled", plan.disabled),
    ):
        if lines:
            print_line()
            print_line(title, "bold")
            for line in lines:
                print_line(f"  {line}")


def _grouped(missing: Sequence[tuple[str, str, str]]) -> list[str]:
    """Return a line for each reason, and one for each of its targets."""
    lines = []
    for reason in dict.fromkeys(reason for _, _, reason in missing):
        own = [(target, owners) for target, owners, other in missing if other == reason]
        lines += [f"{reason}: {counted(len(own), 'target')}", *(f"  {target}, of {owners}" for target, owners in own)]
    return lines


def _rows(plan: FeaturePlan, owners: Iterable[Any]) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = []
    for owner in owners:
        own = [each for each in plan.registrations if each.owner == owner]
        kinds = Counter("wraps" if each.wraps else "makes" if each.create_dummy else "replaces" for each in own)
        rows.append([owner.name, *(str(kinds[kind] or "") for kind in ("replaces", "wraps", "makes")), owner.where])
    return rows


def explain(plan: FeaturePlan, name: str) -> list[str]:
    """Return what is known of a feature, ``mindspeed.FEATURE``, or of a target, in lines.

    Raises:
        UnknownName: it is neither; the message has the nearest name.
    """
    owners = {patch_name(each.owner.name): each.owner for each in plan.registrations}
    text = name.replace(":", ".")
    made = [each for each in plan.registrations if text == each.target or owners.get(name) == each.owner]
    places = {target: str(place).replace(":", ".") for target, place in plan.targets.items()}
    made = made or [each for each in plan.registrations if places.get(each.target) == text]
    if not made:
        known = [*owners, *places]
        raise UnknownName(
            f"these arguments switch on no feature and patch no target {name!r}{did_you_mean(name, known)}"
        )
    lines = []
    for each in made:
        verb = "wrapped" if each.wraps else "made" if each.create_dummy else "replaced"
        lines.append(f"{each.target}: {verb} by {patch_name(each.owner.name)} ({each.owner.where})")
        lines.append(f"  with {':'.join(qualified_name(each.function))} ({_line_of(each.function)})")
        if each.target in plan.targets:
            lines.append(f"  original: {_line_of(original(plan.targets[each.target]))}")
        record = _record_of(plan.targets.get(each.target), each.owner.name)
        lines += [] if record is None else [f"  status: {record.status}{f': {record.reason}' if record.reason else ''}"]
    found = (*plan.unreported, *plan.rivals, *plan.signatures, *plan.failed)
    texts = dict.fromkeys(each.target for each in made)
    return lines + [f"finding: {line}" for line in found if any(text in line for text in texts)]


def _record_of(target: Optional[Target], feature: str) -> Optional[ChangeRecord]:
    """Return the outcome of the change of a feature at a place."""
    for patcher in feature_patches():
        for record in patcher.records():
            for change in record.changes if base_name(record.name) == patch_name(feature) else ():
                if change.target == str(target):
                    return change
    return None


def _line_of(function: Any) -> str:
    """Return the file and line of a function or class; for any other object, its type."""
    try:
        found = inspect.unwrap(function)
        return f"{inspect.getsourcefile(found)}:{inspect.getsourcelines(found)[1]}"
    except (TypeError, ValueError, OSError):
        return f"a {type(function).__name__}"


def main() -> int:
    """Print the plan; return 1 if the program would end, or a target does not exist here.

    With ``--explain NAME``, print that instead. With ``--against MEGATRON``, also the targets that differ there, and
    return 1 if one is gone.
    """
    try:
        plan = make_plan()
        if plan_options.get("explain"):
            for line in explain(plan, str(plan_options["explain"])):
                print_line(line)
            return EXIT_OK
        _print(plan)
        other, gone = plan_options.get("against"), False
        if other:
            gone = _print_drift(*compare(plan.targets.values(), other))
    except PatchcoreError as error:
        print_message(describe_error(error))
        return _EXIT_USAGE
    return EXIT_FINDINGS if gone or plan.rivals or plan.missing or plan.failed else EXIT_OK


def _print_drift(counts: str, drifts: Sequence[Drift]) -> bool:
    """Print the drift of the targets; return whether one is gone."""
    print_line()
    print_line(counts, "bold")
    for each in drifts:
        print_line(f"  {each.kind}: {each.target}{f': {each.detail}' if each.detail else ''}")
    return any(each.kind == "gone" for each in drifts)


if __name__ == "__main__":
    sys.exit(main())
