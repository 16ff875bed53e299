"""``torch.compile`` on the emulated device: prepares torch's compilers as soon as they are imported.

The front end and the back ends that run the graph as it is (``"eager"``, ``"aot_eager"``) work as on any device. Code
is generated for no NPU here, so ``torch.compile`` with its default back end runs ``"aot_eager"`` for graphs with NPU
tensors, and counts them for the report. Code that calls inductor directly (``torch._inductor.compile``) gets a
:class:`npu_emulator.errors.NotEmulated`.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections import Counter
from types import ModuleType
from typing import Any, Callable

import torch

from npu_emulator import private_torch
from npu_emulator.notifying_loader import NotifyingFinder

__all__ = ["graphs_without_inductor", "register"]

#: How many graphs ran by aot_eager, by the feature of inductor that the program asked for.
graphs_without_inductor: Counter[str] = Counter()

#: Module of torch -> module of ours that registers the device with it.
PARTS = {
    "torch._dynamo.device_interface": "npu_emulator.device.compilers.front_end",
    "torch._inductor.codegen.common": "npu_emulator.device.compilers.code_generator",
}


def register() -> None:
    """Register the device with torch's compilers as soon as each is imported. Once per process.

    They take seconds to import, and most programs never do.
    """
    sys.meta_path.insert(0, NotifyingFinder({name: _registering(part) for name, part in PARTS.items()}))
    for name, part in PARTS.items():
        if name in sys.modules:
            importlib.import_module(part).register()
    wrapper = private_torch.TorchCompileInductorWrapper
    wrapper.__call__ = _for_npus(wrapper.__call__)


def _for_npus(inductor: Callable[..., Any]) -> Callable[..., Any]:
    """Return the default back end of ``torch.compile``: that of torch, and aot_eager for graphs with NPU tensors."""

    @functools.wraps(inductor)
    def compile_graph(self: Any, model_: Any, inputs_: Any, **kwargs: Any) -> Any:
        if not _has_npu_tensors(model_, inputs_):
            return inductor(self, model_, inputs_, **kwargs)
        graphs_without_inductor[", ".join(f"{name}={value}" for name, value in self.config.items())] += 1
        return importlib.import_module("torch._dynamo.backends.debugging").aot_eager(model_, inputs_)

    return compile_graph


def _has_npu_tensors(graph: Any, inputs: Any) -> bool:
    values = [*inputs, *graph.parameters(), *graph.buffers()]
    values += [node.meta.get("example_value") for node in graph.graph.nodes]
    return any(isinstance(value, torch.Tensor) and value.device.type == "npu" for value in values)


def _registering(part: str) -> Callable[[ModuleType], None]:
    return lambda _: importlib.import_module(part).register()
