"""Compares the patches of ranks: rank 0 publishes its manifest, the others compare theirs with it and answer."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from patchcore.plugin import compare_manifests, describe_error

__all__ = ["NO_MANIFEST", "PATIENCE", "Store", "compare_ranks"]

#: How long a rank waits for the others, seconds; one that is not patched presents nothing.
PATIENCE = 60.0

#: The text about a rank that presents nothing in time.
NO_MANIFEST = "rank {} sends no patches to compare; start every rank with patchcore run"

_KEY = "patchcore/manifest"
_STEP = 0.02  # seconds


class Store(Protocol):
    """The used part of ``torch.distributed.Store``."""

    def set(self, key: str, value: str) -> None:
        """Set ``key``."""

    def get(self, key: str) -> bytes:
        """Return the value of ``key``, once there is one."""

    def check(self, keys: Sequence[str]) -> bool:
        """Return whether there are values for ``keys``."""


def compare_ranks(
    store: Store, rank: int, size: int, manifest: Mapping[str, Any], *, patience: float = PATIENCE
) -> list[str]:
    """Compare the manifests of all ranks; every rank has to call it. Return the differences, a line each.

    Rank 0 gets the data of every rank, the others get their own differences.

    Args:
        store: shared by the ranks.
        rank: of this process.
        size: the number of ranks.
        manifest: of this process.
        patience: seconds to wait for the others, all together.
    """
    deadline = time.monotonic() + patience
    if rank:
        return _answer(store, rank, manifest, deadline)
    store.set(f"{_KEY}/0", json.dumps(manifest))
    return [line for other in range(1, size) for line in _hear(store, other, deadline)]


def _answer(store: Store, rank: int, manifest: Mapping[str, Any], deadline: float) -> list[str]:
    presented = _receive(store, 0, deadline)
    if presented is None:
        return [NO_MANIFEST.format(0)]
    try:
        differences = compare_manifests(manifest, presented)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        # another version of patchcore; rank 0 has to hear of it, it waits for an answer
        fault = describe_error(error)
        lines = [f"rank {rank} cannot read the patches of rank 0: {fault}; install the same patchcore for every rank"]
    else:
        lines = [f"rank {rank} differs from rank 0: {d.subject}: {d.one}; on rank 0: {d.other}" for d in differences]
    store.set(f"{_KEY}/{rank}", json.dumps(lines))
    return lines


def _hear(store: Store, rank: int, deadline: float) -> list[str]:
    lines = _receive(store, rank, deadline)
    if lines is None:
        return [NO_MANIFEST.format(rank)]
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        return [f"rank {rank} sends an answer that rank 0 cannot read; install the same patchcore for every rank"]
    return lines


def _receive(store: Store, rank: int, deadline: float) -> Any:
    key = f"{_KEY}/{rank}"
    while not store.check([key]):  # to wait in the store would be loud, and deaf to signals
        if time.monotonic() > deadline:
            return None
        time.sleep(_STEP)
    return json.loads(store.get(key))
