"""Records that explain a target or a patch; :mod:`patchcore.builtin.explain.explaining` makes them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Optional

from patchcore.builtin.drift.drift import UNKNOWN, Comparison
from patchcore.builtin.explain.layers import LayerRecord
from patchcore.planning.plan import PlannedPatch
from patchcore.report import ChangeRecord, PatchRecord

__all__ = [
    "ChangeExplanation",
    "OptionExplanation",
    "PatchExplanation",
    "RequirementExplanation",
    "TargetExplanation",
    "what_of",
]

#: Shown as the status of a target without a fingerprint; see :mod:`patchcore.builtin.drift.drift` for the others.
_NOT_RECORDED = "not recorded"


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
    drift: Optional[Comparison]

    @property
    def drift_text(self) -> str:
        """The drift as a text, empty without one."""
        if self.drift is None:
            return ""
        compared = self.drift.recorded is not None and self.drift.status != UNKNOWN
        since = f" since {self.drift.library.name} {self.drift.recorded}" if compared else ""
        return f"{_status_of(self.drift)}{since}{f': {self.drift.detail}' if self.drift.detail else ''}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as a plain dictionary, which has the fields of the record."""
        drift = None if self.drift is None else {**self.drift.to_dict(), "status": _status_of(self.drift)}
        return {"patch": self.patch, "what": self.what, **self.record._asdict(), "drift": drift}


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
    layers: tuple[LayerRecord, ...] = ()
    changes: tuple[ChangeExplanation, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain dictionaries and lists."""
        view = dict(vars(self))
        view["layers"] = list(map(_view_of_layer, self.layers))
        view["changes"] = [change.to_dict() for change in self.changes]
        return view


def _status_of(drift: Comparison) -> str:
    return _NOT_RECORDED if drift.recorded is None else drift.status


def _view_of_layer(layer: LayerRecord) -> dict[str, Any]:
    return {
        "patch": layer.patch,
        "what": what_of(layer),
        "provenance": None if layer.provenance is None else str(layer.provenance),
        "place": str(layer.place),
        "file": layer.place.file,
        "line": layer.place.line,
        "when_call": None if layer.when_call is None else str(layer.when_call),
        "diff": layer.diff,
    }


def what_of(layer: LayerRecord) -> str:
    """Return the kind of change that put a layer on a target, as words."""
    return layer.kind or "put there by other code"


@dataclass(frozen=True)
class RequirementExplanation:
    """One thing that a patch needs.

    Args:
        text: as declared, ``"mmcv>=2,<3"`` or the name of a module.
        met: whether it is there.
        found: the version that is installed, if the requirement has one.
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
        source: the setting that it comes from, ``default`` for none.
    """

    name: str
    value: Any
    source: str


@dataclass(frozen=True)
class PatchExplanation:
    """The explanation of a patch: its entry in the plan and its outcome, with the facts that neither of the two has.

    It is a record of its own because these facts are found for ``patchcore explain`` alone, by reading the metadata of
    distributions and the files of settings; a plan of many patches must not pay for that. It repeats no field of
    :class:`~patchcore.planning.plan.PlannedPatch`, :class:`~patchcore.declare.patch.Patch` or
    :class:`~patchcore.report.PatchRecord`, but refers to them.

    Args:
        entry: the patch in the plan.
        record: its outcome.
        beats: the patches that are not applied because of it.
        requires, needs: libraries and modules, expected and found.
        when: where its condition is written.
        options: its options, each with the setting that it comes from.
        remarks: on targets that others cover, or that are aliases; drift stands with each target.
    """

    entry: PlannedPatch
    record: PatchRecord
    beats: tuple[str, ...]
    requires: tuple[RequirementExplanation, ...]
    needs: tuple[RequirementExplanation, ...]
    when: Optional[str]
    options: tuple[OptionExplanation, ...]
    remarks: tuple[str, ...]

    @property
    def chosen_by(self) -> str:
        """The setting that enabled or disabled it, ``default`` for none."""
        return self.entry.chosen_by or "default"

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain dictionaries and lists."""
        entry, patch, who = self.entry, self.entry.patch, self.entry.provenance
        return {
            "name": patch.name,
            "summary": patch.summary,
            "provenance": str(who),
            "plugin": who.plugin,
            "distribution": who.distribution,
            "version": who.version,
            "file": who.file,
            "verdict": entry.verdict,
            "reason": entry.reason,
            "status": self.record.status,
            "status_reason": self.record.reason,
            "chosen_by": self.chosen_by,
            "chosen_as": entry.chosen_as,
            "default": patch.default,
            "rival": entry.rival,
            "beats": self.beats,
            "requires": list(map(asdict, self.requires)),
            "needs": list(map(asdict, self.needs)),
            "when": self.when,
            "after": patch.after,
            "before": patch.before,
            "conflicts": patch.conflicts,
            "needs_patches": patch.needs_patches,
            "keep": patch.keep,
            "priority": patch.priority,
            "options": list(map(asdict, self.options)),
            "legacy_names": patch.legacy_names,
            "upstream": patch.upstream,
            "remove_when": patch.remove_when,
            "targets": list(dict.fromkeys(map(str, entry.targets))),
            "remarks": self.remarks,
        }
