"""Probes of the child processes that torch starts, for ``patchcore doctor --workers``."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

from patchcore.plugin import PROBE_TIMEOUT, Probe, ProbeResult, find_module, probe_process, probe_python

__all__ = ["probes"]


class _Looking:
    """A data set of one item: the patches of the process that loads it."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> ProbeResult:
        return probe_process()


def probes() -> Iterator[Probe]:
    """Yield a probe for each start method of ``DataLoader``, and one for torchrun; none without torch."""
    if not find_module("torch"):
        return
    for method in multiprocessing.get_all_start_methods():
        yield Probe(f"torch DataLoader, {method}", partial(_in_data_loader, method))
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--no-python", sys.executable)
    yield Probe("torchrun", partial(probe_python, *torchrun))


def _in_data_loader(method: str) -> ProbeResult:
    from torch.utils.data import DataLoader

    loader: Any = DataLoader(
        _Looking(), batch_size=None, num_workers=1, multiprocessing_context=method, timeout=PROBE_TIMEOUT
    )
    sight: ProbeResult = next(iter(loader))
    return sight
