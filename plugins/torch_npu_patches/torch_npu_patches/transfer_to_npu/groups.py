"""The patches, a group of changes each. All of them answer to the name ``transfer_to_npu`` as well."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable
from typing import Any, Callable, Optional

import patchcore as pc
from patchcore.plugin import Change
from torch_npu_patches import private_torch
from torch_npu_patches.transfer_to_npu import averages, comm, distributed, namespace, scripting, tables, tensors
from torch_npu_patches.transfer_to_npu.changes import Adapt, AdaptConstruction, Answer, Count, Extend
from torch_npu_patches.transfer_to_npu.equal_devices import EqualDevices
from torch_npu_patches.transfer_to_npu.visible_devices import AsAscendVariable
from torch_npu_patches.transfer_to_npu.wrappers import Argument, rewriting, rewriting_class, rewritten_class

__all__ = ["PREFIX", "SWITCH", "TRANSFER_TO_NPU", "layer_patch"]

#: The start of the names of all patches of the layer.
PREFIX = "torch.transfer_to_npu"

#: The environment variable that switches the layer off with ``0``; torch_npu's own adapter reads it too.
SWITCH = "TORCH_TRANSFER_TO_NPU"

#: torch's variable, and the value that fake-cann sets where torch_npu is installed and cannot be imported.
_AUTOLOAD, _NO_CANN = "TORCH_DEVICE_BACKEND_AUTOLOAD", "no-CANN"
_WITHOUT_CANN = "torch_npu is installed and there is no CANN; --emulate-npu runs it on a fake one"

#: The emulated torch_npu's adapter, which applies these patches whatever the variable is.
_ADAPTER = "npu_emulator.torch_npu.contrib.transfer_to_npu"


def switched_on() -> Any:
    """Return ``True``, or why the layer is not to be applied."""
    value = os.environ.get(SWITCH, "1").strip()
    if value in ("", "1"):
        return pc.Skip(_WITHOUT_CANN) if os.environ.get(_AUTOLOAD) == _NO_CANN else True
    if value == "0" and _ADAPTER not in sys.modules:
        return pc.Skip(f"{SWITCH}=0")
    raise ValueError(f"{SWITCH} is 0 or 1, found {value!r}")


def apex_is_missing() -> Any:
    """Return ``True``, or why apex is not to be stood in for."""
    spec = importlib.util.find_spec("apex")
    if spec is not None and spec.name == "apex":
        return pc.Skip(f"a real apex is installed: {spec.origin}")
    return switched_on()


def layer_patch(
    name: str,
    changes: Iterable[Change],
    summary: str,
    when: Callable[[], Any] = switched_on,
    default: bool = True,
    requires: str = "torch>=2.4",
    needs: Iterable[str] = (),
    **others: Any,
) -> pc.Patch:
    """Return a patch of the layer, which all of its switches concern.

    Args:
        name: after the prefix of the layer.
        needs: modules besides torch_npu.
        changes, summary, when, default, requires, others: see :class:`patchcore.Patch`.
    """
    return pc.Patch(
        f"{PREFIX}.{name}",
        list(changes),
        summary=summary,
        requires=requires,
        needs=["torch_npu", *needs],
        when=when,
        default=default,
        legacy_names=["transfer_to_npu"],
        **others,
    )


def _rewrite(group: str, target: str, arguments: tuple[Argument, ...]) -> Adapt:
    """The change that rewrites arguments of one callable."""
    parsed = pc.Target.parse(target)
    return Adapt(target, lambda original: rewriting(original, arguments, f"{PREFIX}.{group}", parsed))


def _rewrite_all(group: str, rows: tables.Rows) -> list[Change]:
    return [_rewrite(group, f"torch:{path}", arguments) for path, arguments in rows.items()]


def _rewrite_class(group: str, path: str, arguments: tuple[Argument, ...]) -> Adapt:
    parsed = pc.Target.parse(f"torch:{path}")
    return Adapt(str(parsed), lambda cls: rewriting_class(cls, arguments, f"{PREFIX}.{group}", parsed))


def _adapt(group: Optional[str], path: str, make: Callable[..., Any], *, kind: type[Adapt] = Adapt) -> Adapt:
    """The change by a ``make`` that is told where it is used: the group, for the audit, and the target."""
    parsed = pc.Target.parse(f"torch:{path}")
    return kind(str(parsed), make(parsed) if group is None else make(f"{PREFIX}.{group}", parsed))


def _construction(group: str, path: str, native: Callable[[], type], make: Callable[..., Any]) -> AdaptConstruction:
    """The change that rewrites ``device=`` of calls of a class in C."""
    of_class = _rewrite_class(group, path, (Argument("device", position=0),))
    return AdaptConstruction(str(of_class.target), native, make(f"{PREFIX}.{group}", of_class.target), of_class.make)


FACTORY = layer_patch(
    "factory",
    [
        # first: it fills tables of torch that have to hold the original functions
        Adapt("torch:jit._builtins._find_builtin", scripting.make_find_builtin),
        Adapt("torch:jit.frontend.parse_def", scripting.make_parse_def),
        *_rewrite_all("factory", tables.FACTORIES),
        *_rewrite_all("factory", tables.DEVICE_CONTEXT),
    ],
    "device= of the functions that make tensors",
)

TENSOR = layer_patch(
    "tensor",
    [
        *_rewrite_all("tensor", tables.TENSOR),
        _adapt("tensor", "set_default_tensor_type", tensors.make_set_default_tensor_type),
        _adapt("tensor", "Tensor.cuda", tensors.make_cuda),
        _adapt("tensor", "nn.utils.rnn.PackedSequence.cuda", tensors.make_packed_cuda),
        *(
            _adapt("tensor", f"{owner}.is_cuda", tensors.make_is_cuda)
            for owner in ("Tensor", "UntypedStorage", "storage.TypedStorage")
        ),
        _adapt("tensor", "nn.utils.rnn.PackedSequence.is_cuda", tensors.make_is_cuda, kind=Count),
        # last: it lists the methods as they are then
        Adapt("torch:nn.parameter.UninitializedTensorMixin._allowed_methods", tensors.make_allowed_methods),
    ],
    "Tensor.to, .cuda, .is_cuda, .new_*, .type, .pin_memory, and storages",
)

MODULE = layer_patch(
    "module",
    [*_rewrite_all("module", tables.MODULE), _adapt("module", "nn.Module.cuda", tensors.make_module_cuda, kind=Count)],
    "Module.to and .to_empty; Module.cuda by Tensor.cuda",
)

DATA = layer_patch("data", _rewrite_all("data", tables.DATA), "DataLoader(pin_memory_device=)")

GENERIC = layer_patch(
    "generic",
    [
        *(_rewrite_class("generic", path, arguments) for path, arguments in tables.GENERIC_CLASSES.items()),
        # torch_npu 2.13 derives a class with a metaclass of its own from torch.Event, which needs torch's own class
        pc.WhileImporting(
            "torch_npu.contrib.transfer_to_npu",
            [pc.Replace(f"torch:{path}", factory=rewritten_class) for path in tables.GENERIC_CLASSES],
        ),
    ],
    "torch.Event and torch.Stream on a CUDA device",
)

ACCELERATOR = layer_patch(
    "accelerator",
    _rewrite_all("accelerator", tables.ACCELERATOR),
    "torch.accelerator on a CUDA device",
    requires="torch>=2.6",
)

EQUAL_DEVICES = layer_patch(
    "equal_devices", [EqualDevices()], 'torch.device("cuda", 0) and the device of a tensor on npu:0 are equal'
)

GENERATOR = layer_patch(
    "generator",
    [_construction("generator", "Generator", lambda: private_torch.Generator, tensors.make_generator_call)],
    "torch.Generator on a CUDA device",
)

NAMESPACE = layer_patch("namespace", namespace.changes(f"{PREFIX}.namespace"), "torch.cuda.* as torch.npu.*")

AMP = layer_patch(
    "amp",
    [
        *_rewrite_all("amp", tables.AMP),
        *namespace.autocast_state(f"{PREFIX}.amp"),
        Adapt("torch:amp.autocast_mode.autocast.__getstate__", tensors.make_getstate, create=True),
        Adapt("torch:amp.autocast_mode.autocast.__setstate__", tensors.make_setstate, create=True),
    ],
    "autocast, GradScaler, custom_fwd and custom_bwd of torch.amp and torch.cuda.amp",
)

DISTRIBUTED = layer_patch(
    "distributed",
    [
        _adapt("distributed", "distributed.init_process_group", distributed.make_init_process_group),
        _adapt("distributed", "distributed.new_group", distributed.make_new_group),
        _adapt(None, "distributed.get_backend", distributed.make_get_backend),
        _adapt("distributed", "distributed.is_nccl_available", distributed.make_is_nccl_available),
        namespace.process_group_nccl(),
        *_rewrite_all("distributed", tables.DISTRIBUTED),
        *(_adapt(None, f"distributed.ProcessGroup.{name}", averages.make_reduction) for name in averages.METHODS),
    ],
    "backend nccl as hccl, DistributedDataParallel, DeviceMesh, object collectives, averages of integers",
)


def _given(value: Any) -> Callable[[Any], Any]:
    """Return a function that puts ``value`` in the place of any object, and where there is none."""
    return lambda original: value


COMM = layer_patch(
    "comm",
    [
        _adapt(None, "_utils._get_available_device_type", distributed.make_available_device_type),
        *(Adapt(f"torch:_C.{name}", _given(made), create=True) for name, made in comm.FUNCTIONS.items()),
        _adapt("comm", "nn.DataParallel.__init__", tensors.make_data_parallel, kind=Count),
        *namespace.counted(f"{PREFIX}.comm", tables.COUNTED),
    ],
    "nn.DataParallel, torch.nn.parallel.scatter, gather and replicate, torch.cuda.comm and .nccl",
)

FSDP = layer_patch("fsdp", [_rewrite("fsdp", tables.FSDP[0], tables.FSDP[1:])], "FullyShardedDataParallel(device_id=)")

PIPELINING = layer_patch(
    "pipelining", [_rewrite("pipelining", tables.PIPELINING[0], tables.PIPELINING[1:])], "PipelineStage(device=)"
)

LOAD = layer_patch("load", _rewrite_all("load", tables.LOAD), "map_location of torch.load and torch.jit.load")

PROFILER = layer_patch("profiler", namespace.profiler(f"{PREFIX}.profiler"), "torch.profiler as torch_npu.profiler")

COMPILE = layer_patch(
    "compile",
    [
        Adapt("torch._dynamo.variables.tensor:TensorVariable.method_attr_is_cuda", scripting.make_is_cuda_of_traced),
        Extend("torch._dynamo.utils:common_constant_types", namespace.make_constant_types),
        Extend("torch._dynamo.variables.torch:constant_fold_functions", scripting.make_folded),
        Extend("torch._dynamo.variables.torch:constant_fold_functions_need_guards", scripting.make_folded),
        Answer("torch.utils._triton:has_triton", scripting.has_triton),
        Answer("torch._inductor.utils:get_gpu_type", scripting.get_gpu_type),
        Answer(
            "torch._dynamo.device_interface:CudaInterface.is_triton_capable", staticmethod(scripting.is_triton_capable)
        ),
    ],
    "is_cuda and torch.cuda in programs that torch.compile compiles, no Triton for GPUs; see torch.compile, too",
)

TRITON = layer_patch(
    "triton",
    [Answer("triton.backends.nvidia.driver:CudaDriver.is_active", staticmethod(scripting.has_no_driver))],
    "Triton's driver for CUDA is not active: torch.cuda.is_available() is true, and there is no libcuda",
    needs=["triton"],
)

VISIBLE_DEVICES = layer_patch(
    "visible_devices", [AsAscendVariable()], "CUDA_VISIBLE_DEVICES as ASCEND_RT_VISIBLE_DEVICES, when torch is imported"
)

APEX = layer_patch(
    "apex",
    [
        # torch's own name for it: a process that never imports torch has nothing to do with apex
        pc.Replace('torch:sys.modules["apex"]', "torch_npu_patches.transfer_to_npu.apex:MODULE", create=True),
        pc.Replace('torch:sys.modules["apex.amp"]', "torch_npu_patches.transfer_to_npu.apex:amp", create=True),
    ],
    "apex.amp on torch.amp, where apex is not installed",
    when=apex_is_missing,
    default=False,  # programs that can do without apex find out by importing it
)

#: Every patch of the layer.
TRANSFER_TO_NPU = (
    VISIBLE_DEVICES,
    FACTORY,
    TENSOR,
    MODULE,
    DATA,
    GENERIC,
    ACCELERATOR,
    EQUAL_DEVICES,
    GENERATOR,
    NAMESPACE,
    AMP,
    DISTRIBUTED,
    COMM,
    FSDP,
    PIPELINING,
    LOAD,
    PROFILER,
    COMPILE,
    TRITON,
    APEX,
)
