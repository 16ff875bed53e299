"""Records that explain a target or a patch; :mod:`patchcore.builtin.explain.explaining` makes them."""

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
    """One layer on a target.

    Args:
        patch: its name, ``None`` for a value that other code put there.
        what: the kind of change.
        provenance: the plugin that contributes the patch.
        place: where the new behaviour is written, as text.
        file, line: the same, ``None`` if there is no Python source.
        when_call: where the predicate is written that chooses between this layer and the one below.
        diff: the differences between a replacement and the original, in the format of ``diff -u``.
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
    """A target compared with its recorded fingerprint.

    Args:
        status: ``unchanged``, ``body changed``, ``signature changed``, ``gone``, ``unknown`` or ``not recorded``.
        library, version: the installed library that has it; ``None`` if it was not compared.
        recorded: the version that it is compared with.
        detail: the change, or the reason why it is not known.
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
    """One change of a target.

    Args:
        patch: its name.
        what: the edit, in words.
        record: its outcome; if the change has no reason, the reason is that of the patch.
        drift: of the target, for this patch; ``None`` if nothing can be recorded, or there is no library.
    """

    patch: str
    what: str
    record: ChangeRecord
    drift: Optional[DriftExplanation]


@dataclass(frozen=True)
class TargetExplanation:
    """The explanation of a target.

    Args:
        target: with its module.
        error: why it cannot be read.
        waits: the module that a pending patch waits for, and its file; ``None`` if it is imported, or if nothing waits.
        hint: a command that shows more.
        follows: the patched slot that it has its value from: it is bound to the same object, or inherits it.
        holds: the patched slot whose original it still holds.
        body: true if the body of the function is written, and not its name.
        original: the object without patches, and where it is written.
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
    """The explanation of a patch.

    Args:
        name, summary: of the patch.
        provenance: its plugin, in words; ``plugin``, ``distribution``, ``version`` and ``file`` one by one.
        verdict, reason: of the plan, see :class:`patchcore.planning.conditions.Verdict`.
        status, status_reason: its outcome, see :class:`patchcore.report.PatchRecord`.
        chosen_by: the setting that decided, ``default`` if none did; ``chosen_as`` is the name in that setting.
        default: true if it is applied unless it is disabled.
        rival: the patch that is applied instead of it; ``beats`` those that are not because of it.
        requires, needs: libraries and modules, expected and found.
        when: where its condition is written.
        after, before, conflicts, priority: its place in the order.
        keep: the names that keep the original.
        options: its options, each with the setting that it comes from.
        legacy_names, upstream, remove_when: as declared.
        targets: of its changes.
        remarks: on targets that others cover, or that are aliases; drift stands with each target.
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
