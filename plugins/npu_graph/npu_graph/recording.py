"""The outcome of each graph that was compiled in this process: for ``patchcore graph explain``, reports and tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

__all__ = ["EAGER", "HOST", "GraphRecord", "NodeRecord", "SubgraphRecord", "records"]

#: Where a node runs that is in no subgraph: as an operator of torch; as arithmetic of Python on sizes, or as a view.
EAGER, HOST = "eager", "host"


@dataclass(frozen=True)
class NodeRecord:
    """Where one node of a graph went, and why.

    Args:
        name: of the node.
        operator: the called operator, ``aten.add.Tensor``.
        where: name of its subgraph, ``eager`` or ``host``.
        reason: why it is not in a subgraph; empty when it is.
        line: the line of the model it comes from, ``model.py:12``, as far as known.
        provider: the module that brought the conversion; empty where it is not in a subgraph.
    """

    name: str
    operator: str
    where: str
    reason: str = ""
    line: str = ""
    provider: str = ""


@dataclass(frozen=True)
class SubgraphRecord:
    """One subgraph and its kernel.

    Args:
        name: of the subgraph in its graph.
        operators: how many it has.
        cache: ``hit``, ``built``, or ``rebuilt``.
        remark: why a kernel that was in the cache was built again.
        source: path of the generated source.
    """

    name: str
    operators: int
    cache: str
    remark: str
    source: str


@dataclass(frozen=True)
class GraphRecord:
    """One graph that dynamo and aot_autograd handed over.

    Args:
        number: counted from 1 in this process.
        vendor: its name.
        kind: ``forward``, ``backward`` or ``inference``.
        dynamic: whether some size is not known before it runs.
        nodes: every call, in order.
        subgraphs: those that went to the vendor.
        seconds: the time of compiling, without dynamo and aot_autograd.
        symbols: the sizes that are not known before it runs, each with the size that it stands for: ``s77:
            L['x'].size()[0]``.
        stands_in_for: the vendor that was asked for and why it is not used, where ``vendor`` is its fallback.
    """

    number: int
    vendor: str
    kind: str
    dynamic: bool
    nodes: tuple[NodeRecord, ...]
    subgraphs: tuple[SubgraphRecord, ...]
    seconds: float
    symbols: tuple[str, ...] = ()
    stands_in_for: str = ""

    @property
    def converted(self) -> tuple[NodeRecord, ...]:
        """The nodes that the vendor runs."""
        return tuple(node for node in self.nodes if node.where not in (EAGER, HOST))

    @property
    def eager(self) -> tuple[NodeRecord, ...]:
        """The operators that torch runs."""
        return tuple(node for node in self.nodes if node.where == EAGER)


_RECORDS: list[GraphRecord] = []


def records(*, vendor: Optional[str] = None) -> tuple[GraphRecord, ...]:
    """Return the graphs that were compiled in this process so far, for one vendor or for all."""
    return tuple(record for record in _RECORDS if vendor in (None, record.vendor))


def add(record: GraphRecord) -> None:
    """Remember a graph."""
    _RECORDS.append(record)
