"""The order of patches: declared ones first, then by priority, plugin and registration."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from patchcore.errors import PlanError
from patchcore.planning.candidates import Candidate

__all__ = ["in_order"]


def in_order(
    candidates: Sequence[Candidate], active: Container[str], behind: Mapping[str, Sequence[str]]
) -> list[Candidate]:
    """Return the candidates in the order in which their patches are applied.

    Args:
        candidates: with unique names.
        active: the names of the patches that are to be applied; others order nothing.
        behind: by the name of a patch, the patches that make its libraries importable.

    Raises:
        PlanError: the declared order is a cycle; the message prints it.
    """
    keys = [(c.patch.priority, c.provenance.plugin, i) for i, c in enumerate(candidates)]
    tied = [
        (i, c.patch)
        for i, c in enumerate(candidates)
        if (c.patch.after or c.patch.before or c.patch.name in behind) and c.patch.name in active
    ]
    if not tied:
        return [candidates[i] for _, _, i in sorted(keys)]
    from patchcore.stdlib import graphlib, heapq  # few patches declare an order

    called: dict[str, list[int]] = {}  # two versions of a patch may share a legacy name
    for i, candidate in enumerate(candidates):
        for name in candidate.patch.names if candidate.patch.name in active else ():
            called.setdefault(name, []).append(i)
    edges: list[tuple[int, int]] = []  # the later one first
    for i, patch in tied:
        edges += ((i, j) for name in (*patch.after, *behind.get(patch.name, ())) for j in called.get(name, ()))
        edges += ((j, i) for name in patch.before for j in called.get(name, ()))
    graph: dict[int, set[int]] = {i: set() for i in sorted({i for edge in edges for i in edge})}
    for later, earlier in edges:
        graph[later].add(earlier)
    sorter = graphlib.TopologicalSorter(graph)
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        raise PlanError(_cycle_message([candidates[i] for i in error.args[1]])) from None
    # Patches that nothing ties keep their place by key; those with a declared order are merged in as soon as the
    # patches before them are out. `static_order` of graphlib would not do: it knows no keys.
    ready = [keys[i] for i in sorter.get_ready()]
    heapq.heapify(ready)
    ordered = []
    for key in (*sorted([key for key in keys if key[2] not in graph]), None):
        while ready and (key is None or ready[0] < key):
            index = heapq.heappop(ready)[2]
            ordered.append(candidates[index])
            sorter.done(index)
            for released in sorter.get_ready():
                heapq.heappush(ready, keys[released])
        if key is not None:
            ordered.append(candidates[key[2]])
    return ordered


def _cycle_message(cycle: Sequence[Candidate]) -> str:
    # graphlib lists each patch before the one that waits for it
    path = " -> ".join(c.patch.name for c in cycle)
    who = "; ".join(
        f"{c.patch.name} ({c.provenance}) declares after={list(c.patch.after)}, before={list(c.patch.before)}"
        for c in cycle[1:]
    )
    return f"the order of the patches is a cycle: {path}. {who}. Remove one of these, or disable one of the patches"
