"""Which patches can go? Answered from what they declare: ``remove_when`` and ``upstream``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Optional

from patchcore.errors import DeclarationError
from patchcore.planning.conditions import OFF, Environment
from patchcore.planning.plan import PlannedPatch

__all__ = ["CAN_GO", "MALFORMED", "NEEDED", "NOT_APPLIED", "WORTH_A_LOOK", "Age", "review"]

#: Its ``remove_when`` holds, and nothing but a choice keeps it from being applied.
CAN_GO = "can go"
#: Its ``remove_when`` holds; it does not fit here, and is not applied anyway.
NOT_APPLIED = "not applied"
#: It has an ``upstream`` link, which may say by now that it is not needed any more.
WORTH_A_LOOK = "worth a look"
#: Its ``remove_when`` does not hold.
NEEDED = "needed"
#: Its ``remove_when`` cannot be read, and would never hold.
MALFORMED = "malformed"


class Age(NamedTuple):
    """What is known about the time of a patch.

    Args:
        entry: the patch, as it is planned here.
        verdict: ``CAN_GO``, ``NOT_APPLIED``, ``WORTH_A_LOOK``, ``NEEDED`` or ``MALFORMED``.
        reason: what the verdict goes by.
    """

    entry: PlannedPatch
    verdict: str
    reason: str

    @property
    def is_finding(self) -> bool:
        """True when something is to be done."""
        return self.verdict in (CAN_GO, MALFORMED)


def review(plan: Iterable[PlannedPatch], environment: Optional[Environment] = None) -> list[Age]:
    """Return the age of each patch that declares ``remove_when`` or ``upstream``, in the order of the plan.

    Imports nothing and asks no server.

    Args:
        plan: what is planned here.
        environment: what is installed; looked up anew by default.
    """
    environment = environment or Environment()
    return [_age(entry, environment) for entry in plan if entry.patch.remove_when or entry.patch.upstream]


def _age(entry: PlannedPatch, environment: Environment) -> Age:
    condition = entry.patch.remove_when
    reason = "it declares no remove_when"
    if condition:
        try:
            unmet = _unmet(condition, environment)
        except DeclarationError as error:
            return Age(entry, MALFORMED, str(error))
        if unmet is None:
            misfit = _misfit(entry, environment)
            return Age(entry, NOT_APPLIED, misfit) if misfit else Age(entry, CAN_GO, f"{condition} holds")
        reason = unmet
    return Age(entry, WORTH_A_LOOK if entry.patch.upstream else NEEDED, reason)


def _misfit(entry: PlannedPatch, environment: Environment) -> str:
    """Return why the patch is not applied here, apart from choices; empty where it is, or would be if it was chosen."""
    return environment.judge(entry.patch).reason if entry.verdict == OFF else entry.reason


def _unmet(condition: str, environment: Environment) -> Optional[str]:
    """Return why a patch is not to be removed yet, ``None`` when it is.

    What a patch *requires* counts as met where the marker of the requirement does not hold; what ends it does not.
    """
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        requirement = Requirement(condition)
    except InvalidRequirement as error:
        raise DeclarationError(f"remove_when={condition!r} is not a requirement like 'mmcv>=2.3': {error}") from error
    if requirement.marker is not None and not requirement.marker.evaluate():
        return f"{requirement.marker} does not hold here"
    reason = environment.unmet(condition)
    return None if reason is None else reason.replace(f"requires {condition}, ", "", 1)
