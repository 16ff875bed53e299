"""Records of what there is to say about a target or a patch; :mod:`patchcore.builtin.explain.explaining` makes them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Optional

from patchcore.builtin.drift.drift import UNKNOWN
from patchcore.report import ChangeRecord

__all__ = [
    "NOT_RECORDED",
    "ChangeExplanation",
    "DriftExplanation",
    "LayerExplanation",
    "OptionExplanation",
    "PatchExplanation",
    "RequirementExplanation",
    "TargetExplanation",
]

#: Of a target without a fingerprint; see :mod:`patchcore.builtin.drift.drift` for the others.
NOT_RECORDED = "not recorded"


@dataclass(frozen=True)
class LayerExplanation:
    """What one patch has put over a target.

    Args:
        patch: its name, ``None`` for what somebody else put there.
        what: the kind of change.
        provenance: who contributes the patch.
        place: where the new behaviour is written, as text.
        file, line: the same, ``None`` where there is no Python source.
        when_call: where the predicate is written that sends calls there, or to what is below.
        diff: how a replacement differs from the original, as ``diff -u`` has it.
    """

    patch: Optional[str]
    what: str
    provenance: Optional[str]
    place: str
    file: Optional[str] = None
    line: Optional[int] = None
    when_call: Optional[str] = None
    diff: str = ""


@dataclass(frozen=True)
class DriftExplanation:
    """What has become of a target since its fingerprint was recorded.

    Args:
        status: ``unchanged``, ``body changed``, ``signature changed``, ``gone``, ``unknown`` or ``not recorded``.
        library, version: where it was looked at; ``None`` where it was not.
        recorded: the version that it is compared with.
        detail: what has changed, or why that is not known.
    """

    status: str
    library: Optional[str] = None
    version: Optional[str] = None
    recorded: Optional[str] = None
    detail: str = ""

    def __str__(self) -> str:
        since = f" since {self.library} {self.recorded}" if self.recorded and self.status != UNKNOWN else ""
        return f"{self.status}{since}{f': {self.detail}' if self.detail else ''}"


@dataclass(frozen=True)
class ChangeExplanation:
    """What one change does to a target.

    Args:
        patch: its name.
        what: what it does, in words.
        record: what became of it; the reason is that of the patch where the change has none.
        drift: of the target, for this patch; ``None`` where there is nothing to record, or no library.
    """

    patch: str
    what: str
    record: ChangeRecord
    drift: Optional[DriftExplanation]


@dataclass(frozen=True)
class TargetExplanation:
    """What there is to say about a target.

    Args:
        target: with its module.
        error: why it cannot be looked at.
        waits: the module that a pending patch waits for, and its file; ``None`` if it is imported, or if nothing waits.
        hint: how to learn more.
        follows: the patched slot that it has its value from: it is bound to the same object, or inherits it.
        holds: the patched slot whose original it holds still.
        body: whether the body of the function is written, and not its name.
        original: what is there without patches, and where that is written.
        layers: outermost first.
        changes: those that name it, or have reached it.
    """

    target: str
    error: Optional[str] = None
    waits: Optional[str] = None
    hint: str = ""
    follows: Optional[str] = None
    holds: Optional[str] = None
    body: bool = False
    original: Optional[str] = None
    layers: tuple[LayerExplanation, ...] = ()
    changes: tuple[ChangeExplanation, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain dictionaries and lists; a change has the fields of its record."""
        view = asdict(self)
        for change in view["changes"]:
            change.update(change.pop("record")._asdict())
        return view


@dataclass(frozen=True)
class RequirementExplanation:
    """One thing that a patch needs.

    Args:
        text: as declared, ``"mmcv>=2,<3"`` or the name of a module.
        met: whether it is there.
        found: the version that is installed, where a version is asked for.
        reason: why it is not met.
    """

    text: str
    met: bool
    found: Optional[str] = None
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.text} ({self.reason or f'found {self.found}' if self.found or self.reason else 'found'})"


@dataclass(frozen=True)
class OptionExplanation:
    """One option of a patch.

    Args:
        name, value: of it; of a value that JSON does not know, its ``repr``.
        source: which setting says so, ``default`` where none does.
    """

    name: str
    value: Any
    source: str


@dataclass(frozen=True)
class PatchExplanation:
    """What there is to say about a patch.

    Args:
        name, summary: of the patch.
        provenance: who contributes it, in words; ``plugin``, ``distribution``, ``version`` and ``file`` one by one.
        verdict, reason: of the plan, see :class:`patchcore.planning.conditions.Verdict`.
        status, status_reason: what became of it, see :class:`patchcore.report.PatchRecord`.
        chosen_by: the setting that decided, ``default`` where none did; ``chosen_as`` the name it says.
        default: whether it is applied without being asked for.
        rival: the patch that is applied instead of it; ``beats`` those that are not because of it.
        requires, needs: libraries and modules, expected and found.
        when: where its condition is written.
        after, before, conflicts, priority: its place in the order.
        keep: the names that go on to mean the original.
        options: with the setting that each one comes from.
        legacy_names, upstream, remove_when: as declared.
        targets: of its changes.
        remarks: on targets that others cover, or that are names of something else; drift is said by target.
    """

    name: str
    summary: str
    provenance: str
    plugin: str
    distribution: Optional[str]
    version: Optional[str]
    file: Optional[str]
    verdict: str
    reason: str
    status: str
    status_reason: str
    chosen_by: str
    chosen_as: Optional[str]
    default: bool
    rival: Optional[str]
    beats: tuple[str, ...]
    requires: tuple[RequirementExplanation, ...]
    needs: tuple[RequirementExplanation, ...]
    when: Optional[str]
    after: tuple[str, ...]
    before: tuple[str, ...]
    conflicts: tuple[str, ...]
    keep: tuple[str, ...]
    priority: int
    options: tuple[OptionExplanation, ...]
    legacy_names: tuple[str, ...]
    upstream: Optional[str]
    remove_when: Optional[str]
    targets: tuple[str, ...]
    remarks: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain dictionaries and lists."""
        return asdict(self)
