"""Layers: the values that patches put on a target, from the outermost to the original, as records.

Reads the journal only. Nothing is imported, no source is read and no code of others runs, so that a process can
describe all of its targets each time it writes its report.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any, NamedTuple, Optional

from patchcore.builtin.explain.places import Place, place_of
from patchcore.declare.target import Item, Target
from patchcore.engine.engine import ENGINE
from patchcore.engine.journal import Layer, Record
from patchcore.objects.modules import class_namespace, is_class, namespace_of
from patchcore.planning.provenance import Provenance

__all__ = ["LayerRecord", "TargetRecord", "describe_layers", "patches_behind"]


class LayerRecord(NamedTuple):
    """The value that one change put on a target.

    Args:
        patch: name of the patch; ``None`` for a value that other code put there.
        kind: of the change, see :class:`patchcore.report.ChangeRecord`; empty if ``patch`` is ``None``.
        plugin, distribution, version: the plugin of the patch; ``distribution`` is ``None`` for local code.
        place: where the new behaviour is written.
        when_call: where the predicate is written that chooses between this layer and the one below; only ``patchcore
            explain`` looks for it.
        diff: the differences between a replacement and the original, in the format of ``diff -u``; likewise.
    """

    patch: Optional[str]
    kind: str
    plugin: str
    distribution: Optional[str]
    version: Optional[str]
    place: Place
    when_call: Optional[Place] = None
    diff: str = ""

    @property
    def provenance(self) -> Optional[Provenance]:
        """The plugin of the patch, ``None`` for a value that other code put there."""
        return None if self.patch is None else Provenance(self.plugin, self.distribution, self.version)


class TargetRecord(NamedTuple):
    """A patched target.

    Args:
        target: name of its slot.
        layers: from the outermost to the one next to the original.
        original: where the original is written.
    """

    target: str
    layers: tuple[LayerRecord, ...]
    original: Place

    def to_dict(self) -> dict[str, Any]:
        """Return the view in the report of a process, which sources need not be read for."""
        layers = [
            {**dict(zip(LayerRecord._fields[:5], layer)), "place": layer.place._asdict()} for layer in self.layers
        ]
        return {"target": self.target, "layers": layers, "original": self.original._asdict()}


def describe_layers(records: Iterable[Record]) -> list[TargetRecord]:
    """Return a record of the layers of each patched slot.

    Args:
        records: of the journal; those without layers are passed over.
    """
    found = []
    for record in records:
        layers = tuple(map(_describe, reversed(list(record.layers))))
        if layers:
            found.append(TargetRecord(record.slot.name, layers, place_of(record.original)))
    return found


def _describe(layer: Layer) -> LayerRecord:
    if layer.owner is None:
        return LayerRecord(None, "", "", None, None, place_of(layer.product))
    who = layer.owner.provenance
    source = layer.change.source
    if not layer.change.makes_product:
        place = place_of(layer.product)
    elif type(source) is Target:
        place = _place_of_target(source, layer.product)
    else:
        place = place_of(source)
    return LayerRecord(layer.owner.patch.name, layer.change.kind, who.plugin, who.distribution, who.version, place)


def _place_of_target(target: Target, product: Any) -> Place:
    """Return where the object at a target is written, without running code of others; else that of ``product``."""
    found: Any = sys.modules.get(target.pin().module)
    for step in target.pin().path:
        space = class_namespace(found) if is_class(found) else namespace_of(found) or {}
        if isinstance(step, Item) or step not in space:
            return Place(str(target))
        found = space[step]
    if issubclass(type(found), ModuleType):  # a plugin's change names no more than that
        return place_of(product)
    return place_of(found)


def patches_behind(value: Any) -> tuple[str, tuple[str, ...]]:
    """Return the patched place that an object was made for, and the names of the patches that call it passes through.

    Args:
        value: a function, for example one that a library was given.

    Returns:
        The name of the place, ``package.module:Class.attribute``, and the names of the patches, the last applied first.
        Both are empty if no patch made the object and no patch has written its body.

    Examples:
        >>> import statistics
        >>> from patchcore import Patch, Patcher, Wrap
        >>> patch = Patch("demo.mean", changes=Wrap("statistics:mean", lambda original, data: original(data)))
        >>> with Patcher([patch]):
        ...     patches_behind(statistics.mean)
        ('statistics:mean', ('demo.mean',))
    """
    found = ENGINE.journal.behind(value)
    if not found:
        return "", ()
    names = dict.fromkeys(str(layer.owner) for _, layer in found if layer.owner is not None)
    return found[0][0].slot.name, tuple(names)
