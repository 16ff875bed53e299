"""Run a kernel in the place of its subgraph, and see to it that what it gives is what the graph says."""

from __future__ import annotations

from typing import Any, Optional

import torch

from npu_graph.cache import Entry
from npu_graph.errors import LaunchError
from npu_graph.pipeline.checking import Check, run_kernel
from npu_graph.pipeline.subgraph import Subgraph
from npu_graph.vendor import Vendor

__all__ = ["Launch"]


class Launch(torch.nn.Module):
    """Calls the kernel of a subgraph.

    Args:
        vendor: whose kernel it is.
        subgraph: what was compiled.
        entry: the kernel.
        name: for messages.
        check: compares what the kernel gives with eager, ``None`` for not.
    """

    def __init__(self, vendor: Vendor, subgraph: Subgraph, entry: Entry, name: str, check: Optional[Check]) -> None:
        super().__init__()
        self._vendor = vendor
        self._subgraph = subgraph
        self._entry = entry
        self._name = name
        self._check = check

    def forward(self, *inputs: Any) -> Any:
        """Run the kernel on inputs and values of symbols; return what the subgraph would.

        Raises:
            LaunchError: the kernel raises, or gives something else than the graph says.
            DeviationError: what it gives deviates from eager, and a check is to raise.
        """
        try:
            outputs = run_kernel(self._vendor, self._subgraph, self._entry, inputs)
        except Exception as error:
            raise LaunchError(f"vendor {self._vendor.name}: {self._name}: {error} ({self._entry.source})") from error
        if self._check is not None:
            outputs = self._check(inputs, outputs)
        return outputs[0] if self._subgraph.single else tuple(outputs)
