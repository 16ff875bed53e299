"""Vendors and compiled graphs, as sections of ``patchcore list`` and of reports."""

from __future__ import annotations

from collections.abc import Sequence

from npu_graph.recording import GraphRecord
from npu_graph.registry import contributed
from patchcore.plugins import Plugins
from patchcore.report import Section

__all__ = ["list_vendors", "summarize"]

BACKENDS = "torch_dynamo_backends"


def list_vendors(plugins: Plugins) -> Section:
    """Return the vendors of plugins, each with the names that ``torch.compile(backend=...)`` has for it."""
    backends = _backends()
    data = [
        {
            "vendor": name,
            "device": found.vendor.device_type,
            "summary": found.vendor.summary,
            "plugin": found.provenance.plugin,
            "distribution": found.provenance.distribution,
            "version": found.provenance.version,
            "backends": backends.get(found.provenance.distribution or "", []),
        }
        for name, found in sorted(contributed(plugins).items())
    ]
    lines = [f"{each['vendor']}: {each['summary']} ({each['device']}; plugin {each['plugin']})" for each in data]
    names = [f"torch.compile(backend={name!r})" for name in sorted(name for each in backends.values() for name in each)]
    return Section("Graph vendors", tuple(lines + names), data=data)


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
            f"{vendor}: {len(own)} graphs, {len(subgraphs)} subgraphs ({hits} from the cache), "
            f"{converted} operators converted, {eager} eager"
        )
    return Section("graphs", tuple(lines), data=lines)
