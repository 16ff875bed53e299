"""Vendors and compiled graphs, as sections of ``patchcore list`` and of reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

from npu_graph.backend import Backend
from npu_graph.recording import GraphRecord
from npu_graph.registry import contributed, obstacle
from patchcore import Section
from patchcore.plugin import Plugins, Provenance, counted

__all__ = ["list_vendors", "summarize"]

#: The entry-point group that torch looks for backends in.
BACKENDS = "torch_dynamo_backends"


def list_vendors(plugins: Plugins) -> Section:
    """Return the vendors of plugins, each with the names that ``torch.compile(backend=...)`` has for it."""
    found = contributed(plugins)
    names = _backends(plugins, {each.provenance.distribution: each.provenance for each in found.values()})
    data: list[dict[str, Any]] = [
        {
            "vendor": name,
            "device": vendor.device_type,
            "summary": vendor.summary,
            "plugin": provenance.plugin,
            "distribution": provenance.distribution,
            "version": provenance.version,
            "backends": names.get(name, []),
            "obstacle": obstacle(vendor),
        }
        for name, (vendor, provenance) in sorted(found.items())
    ]
    lines = [
        "; ".join((f"{e['vendor']}: {e['summary']}", e["device"], f"plugin {e['plugin']}", _way_in(e), *_unusable(e)))
        for e in data
    ]
    return Section("Graph vendors", tuple(lines), data=data)


def _way_in(described: Mapping[str, Any]) -> str:
    """The value for ``torch.compile(backend=...)``."""
    names = " ".join(f"backend={name!r}" for name in described["backends"])
    return names or f"backend=npu_graph.Backend({described['vendor']!r})"


def _unusable(described: Mapping[str, Any]) -> tuple[str, ...]:
    """The reason why a vendor cannot be used here; empty if it can."""
    return () if described["obstacle"] is None else (f"not usable here: {described['obstacle']}",)


def _backends(plugins: Plugins, owners: Mapping[Optional[str], Provenance]) -> dict[str, list[str]]:
    """The names of backends by vendor, as far as they are declared by distributions that contribute vendors."""
    import importlib.metadata as metadata

    names: dict[str, list[str]] = {}
    for owner, provenance in owners.items():
        if owner is None:  # a local module
            continue
        for entry in metadata.distribution(owner).entry_points:
            if entry.group != BACKENDS:
                continue
            try:
                backend = entry.load()
            except Exception as error:
                plugins.note(provenance, f"entry point {entry.name}", error)
                continue
            if isinstance(backend, Backend):
                names.setdefault(backend.vendor, []).append(entry.name)
    return names


def summarize(records: Sequence[GraphRecord]) -> Section:
    """Return how much of the graphs of a process went where."""
    lines = []
    for vendor in sorted({record.vendor for record in records}):
        own = [record for record in records if record.vendor == vendor]
        subgraphs = [subgraph for record in own for subgraph in record.subgraphs]
        hits = sum(subgraph.cache == "hit" for subgraph in subgraphs)
        converted = sum(len(record.converted) for record in own)
        eager = sum(len(record.eager) for record in own)
        lines.append(
            f"{vendor}: {counted(len(own), 'graph')}, {counted(len(subgraphs), 'subgraph')} ({hits} from the cache), "
            f"{counted(converted, 'operator')} converted, {eager} eager"
        )
    absent = sorted({record.stands_in_for for record in records if record.stands_in_for})
    lines += [f"a fallback stands in for {text}" for text in absent]
    return Section("graphs", tuple(lines), mark="graphs went to a fallback" if absent else "", data=lines)
