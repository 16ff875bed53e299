"""Makes explanations: the patches of a target, where they are written, why some are not applied, which names follow.

The patches are applied meanwhile. If the module of a target is not imported, its explanation is made from sources and
metadata.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional, Union

from patchcore.builtin.drift.drift import UNKNOWN, Comparison, Drift, fingerprinted
from patchcore.builtin.drift.recorded import Library
from patchcore.builtin.explain.explanation import (
    ChangeExplanation,
    OptionExplanation,
    PatchExplanation,
    RequirementExplanation,
    TargetExplanation,
)
from patchcore.builtin.explain.layers import LayerRecord
from patchcore.builtin.explain.places import Place, difference, place_in_source
from patchcore.declare.changes import Change, resolve
from patchcore.declare.slots import BodySlot, Slot, find_slot
from patchcore.declare.target import Target
from patchcore.engine.application import Application
from patchcore.engine.engine import ENGINE
from patchcore.engine.journal import Layer, Record
from patchcore.errors import DeclarationError, PluginError, describe_error
from patchcore.objects.binding import has_identity, held_value, wrapped_callable
from patchcore.objects.extensions import using
from patchcore.objects.modules import module_file
from patchcore.patcher import Patcher
from patchcore.planning.plan import Plan, PlannedPatch
from patchcore.report import APPLIED, PENDING, ChangeRecord, PatchRecord

__all__ = ["Explainer"]


class _Made(NamedTuple):
    """A change, as declared and as it turned out."""

    patch: PatchRecord
    record: ChangeRecord
    change: Change
    target: Target


class Explainer:
    """Explains patches and targets of a Patcher that is applied.

    Args:
        patcher: applied.
        plan: the one that was applied.
        failures: modules that cannot be imported, and why.
        diff: whether to compare sources.
    """

    def __init__(self, patcher: Patcher, plan: Plan, failures: Mapping[str, str], *, diff: bool = True) -> None:
        self._settings = patcher.settings
        self._plan = plan
        self._failures = failures
        self._diff = diff
        self._report = patcher.report(unreachable=True)
        self._changes = [
            _Made(patch, record, change, target)
            for patch in self._report.patches
            for record, change, target in zip(patch.changes, plan[patch.name].patch.changes, plan[patch.name].targets)
        ]
        self._environment = patcher.make_environment()
        self._patcher = patcher
        self._drift: dict[str, dict[Target, Comparison]] = {}

    def patch(self, entry: PlannedPatch) -> PatchExplanation:
        """Explain one patch of the plan."""
        patch = entry.patch
        return PatchExplanation(
            entry,
            self._report[patch.name],
            beats=tuple(other.patch.name for other in self._plan if other.rival == patch.name),
            requires=tuple(map(self._requirement, patch.requires)),
            needs=tuple(map(self._need, patch.needs)),
            when=None if patch.when is None else str(place_in_source(patch.when)),
            options=tuple(self._options(entry)),
            remarks=tuple(remark.text for remark in self._plan.remarks(entry) if remark.topic in ("alias", "covered")),
        )

    def target(self, target: Target) -> TargetExplanation:
        """Return the explanation of ``target``, which has its module."""
        named = [made for made in self._changes if made.target == target]
        changes = tuple(map(self._change, named))
        error = self._failures.get(target.module)
        if error is None and target.module not in sys.modules:
            pending = [made for made in named if made.record.status == PENDING]
            return TargetExplanation(
                str(target),
                waits=_module(target.module) if pending else None,
                hint="" if named else f"{_module(target.module)} is not imported; --apply imports it and looks",
                layers=tuple(map(self._declared_layer, reversed(pending))),
                changes=changes,
            )
        if error or not target.path:
            applied = [] if error else [made for made in named if made.record.status == APPLIED]
            layers = tuple(map(self._import_layer, reversed(applied)))
            return TargetExplanation(str(target), error, layers=layers, changes=changes)
        try:
            with using(self._patcher.plugins.extensions):
                slot = find_slot(target, importlib.import_module(target.module), may_be_absent=bool(changes))
        except Exception as refusal:
            return TargetExplanation(str(target), describe_error(refusal), changes=changes)
        record = _record_of(slot)
        if record is None:
            return self._unpatched(target, slot, changes)
        if not changes:
            changes = self._changes_of(record)
        original = wrapped_callable(record.original)
        return TargetExplanation(
            str(target),
            follows=record.slot.name if record.slot.name != slot.name else None,
            body=isinstance(record.slot, BodySlot),
            original=str(place_in_source(original)),
            layers=tuple(self._layer(layer, original) for layer in reversed(record.layers)),
            changes=changes,
        )

    def _unpatched(self, target: Target, slot: Slot, changes: tuple[ChangeExplanation, ...]) -> TargetExplanation:
        value = held_value(slot.lookup())
        still = next((r for r in ENGINE.journal if has_identity(value) and held_value(r.original) is value), None)
        return TargetExplanation(
            str(target),
            holds=None if still is None else still.slot.name,
            original=str(place_in_source(wrapped_callable(slot.lookup()))),
            changes=changes or (() if still is None else self._changes_of(still)),
        )

    def _changes_of(self, record: Record) -> tuple[ChangeExplanation, ...]:
        """Return the changes that have written a slot."""
        return tuple(self._change(made) for made in self._changes if record.slot.name in made.record.slots)

    def _change(self, made: _Made) -> ChangeExplanation:
        return ChangeExplanation(
            made.patch.name,
            made.change.phrase(made.target),
            made.record._replace(reason=made.record.reason or made.patch.reason),
            self._drift_of(self._plan[made.patch.name]).get(made.target),
        )

    def _drift_of(self, entry: PlannedPatch) -> dict[Target, Comparison]:
        """Return the drift of each target of a patch that has a fingerprint, or could have one."""
        name = entry.patch.name
        if name not in self._drift:
            targets = [t for _, t in fingerprinted(entry.patch, entry.targets) if self._environment.is_module(t.root)]
            found: dict[Target, Comparison] = {}
            if targets:
                none = f"{entry.provenance} carries no fingerprints"
                try:
                    with using(self._patcher.plugins.extensions):
                        found = {c.target: c for c in Drift(ENGINE.journal.original, self._environment).of(entry)}
                except PluginError as error:
                    none = str(error)
                for target in targets:
                    if target not in found:
                        found[target] = Comparison(target, UNKNOWN, Library.of(target, self._environment), detail=none)
            self._drift[name] = found
        return self._drift[name]

    def _layer(self, layer: Layer, original: Any) -> LayerRecord:
        if layer.owner is None:
            return LayerRecord(None, "", "", None, None, place_in_source(layer.product))
        change: Change = layer.change
        source = wrapped_callable(held_value(layer.product if change.by_hand else resolve(change.source)))
        diff = difference(original, source) if self._diff and (change.by_hand or change.replaces) else ""
        return _layer_of(layer.owner, change, place_in_source(source), change.predicate, diff)

    def _declared_layer(self, made: _Made) -> LayerRecord:
        """Return the layer that a pending change will put on its target, as it is declared."""
        source, predicate = made.change.source, made.change.predicate
        place = (
            Place(str(source))
            if type(source) is Target
            else place_in_source(wrapped_callable(held_value(resolve(source))))
        )
        return _layer_of(self._plan[made.patch.name], made.change, place, predicate)

    def _import_layer(self, made: _Made) -> LayerRecord:
        """Return the layer of a change of imports: the module that the import returns."""
        place = place_in_source(sys.modules[made.target.module])
        return _layer_of(self._plan[made.patch.name], made.change, place)

    def _requirement(self, text: str) -> RequirementExplanation:
        from packaging.requirements import InvalidRequirement, Requirement

        try:
            reason = self._environment.unmet(text)
            version = self._environment.version(Requirement(text).name.replace("-", "_"))
        except (DeclarationError, InvalidRequirement) as error:
            return RequirementExplanation(text, False, reason=describe_error(error))
        return RequirementExplanation(text, reason is None, version, reason or "")

    def _need(self, module: str) -> RequirementExplanation:
        found = self._environment.is_module(module)
        return RequirementExplanation(module, found, reason="" if found else "neither installed nor emulated")

    def _options(self, entry: PlannedPatch) -> Sequence[OptionExplanation]:
        given = self._settings.options_of(entry.patch)
        origin = self._settings.origins.get("options", "settings")
        return [
            OptionExplanation(name, _plain(value), origin if name in given else "default")
            for name, value in entry.patch.options.items()
        ]


def _layer_of(
    entry: Union[PlannedPatch, Application], change: Change, place: Place, predicate: Any = None, diff: str = ""
) -> LayerRecord:
    who = entry.provenance
    when_call = None if predicate is None else place_in_source(predicate)
    return LayerRecord(entry.patch.name, change.kind, who.plugin, who.distribution, who.version, place, when_call, diff)


def _module(name: str) -> str:
    """Return the name of a module that is not imported, and its file if it has one."""
    file = module_file(name)
    return f"{name} ({file})" if file else name


def _plain(value: Any) -> Any:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return repr(value)
    return value


def _record_of(slot: Slot) -> Optional[Record]:
    """The record of a slot, or of the slot that it has its value from."""
    makers = ENGINE.journal.behind(slot.lookup())
    return ENGINE.journal.find(slot) or next((record for record, _ in makers), None)
