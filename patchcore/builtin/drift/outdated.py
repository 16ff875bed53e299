"""Remarks on patches that can be removed, by the ``remove_when`` and ``upstream`` that they declare."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from patchcore.errors import DeclarationError
from patchcore.planning.conditions import APPLY, OFF, Environment
from patchcore.planning.plan import PlannedPatch
from patchcore.report import Remark

__all__ = ["remarks_on_end"]

_TOPIC = "outdated"


def remarks_on_end(entry: PlannedPatch, environment: Environment) -> Iterator[Remark]:
    """Yield remarks on whether a patch is still needed here. Nothing is imported or downloaded; see hook ``remarks``.

    It is a finding if ``remove_when`` holds and nothing but a choice keeps the patch from being applied, or if
    ``remove_when`` cannot be read. A patch that cannot be applied here may be needed in other environments.

    Args:
        entry: planned here.
        environment: the installed distributions.
    """
    patch = entry.patch
    if patch.remove_when:
        try:
            unmet = _unmet(patch.remove_when, environment)
        except DeclarationError as error:
            yield Remark(str(error), finding=True, advice=f"Correct remove_when of {patch.name}", topic=_TOPIC)
            return
        if unmet is None:
            if entry.verdict == APPLY or (entry.verdict == OFF and not environment.judge(patch).reason):
                text = f"is no longer needed: {patch.remove_when} holds"
                yield Remark(text, finding=True, advice=f"Remove the patch {patch.name}", topic=_TOPIC)
            return
        yield Remark(f"is needed until {patch.remove_when}: {unmet}", topic=_TOPIC)
    if patch.upstream:
        yield Remark(f"may be resolved by now: {patch.upstream}", topic=_TOPIC)


def _unmet(condition: str, environment: Environment) -> Optional[str]:
    """Return why a patch is not to be removed yet, ``None`` when it is.

    A marker that does not hold (``; python_version < "3.9"``) makes an entry of ``requires`` count as met, but
    ``remove_when`` as unmet.
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
