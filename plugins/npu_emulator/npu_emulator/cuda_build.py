"""Makes a CUDA build of torch answer as a build without CUDA, the build of machines with NPUs.

pip installs the CUDA build for most users on Linux. Its extension module ``torch._C`` has 138 names that the other
build lacks (torch 2.13), and torch's Python code asks for them to tell the two apart: ``torch.cuda`` is compiled in if
there is a ``torch._C._cuda_getDeviceCount``, ``nn.DataParallel`` calls ``torch._C._scatter``. Without these names every
such question has the answer of the other build, no Python code reaches the driver, and a GPU in the machine is out of
the program's sight.
"""

from __future__ import annotations

import re
import sys
from types import ModuleType
from typing import Any, Callable

from npu_emulator import private_torch
from npu_emulator.errors import EmulationError
from npu_emulator.notifying_loader import NotifyingFinder

__all__ = ["connect", "disconnect", "hide"]

_EXTENSION = "torch._C"
_DISTRIBUTED = "torch._C._distributed_c10d"

#: Names that only a CUDA build has in ``torch._C``. A build without CUDA has no name like these in the module as
#: it is compiled (torch 2.13). ``torch.cuda`` adds classes of some of these names there, to derive others from.
_PREFIXES = re.compile(r"_(cuda|cudnn|cusparselt|gds_|nccl|nvtx|Cuda|CUDA|CUuuid|broadcast|gather|scatter)")
_NAMES = frozenset(
    (
        *("_FastCudaLauncher", "_MemPool", "_StaticCudaLauncher", "_WorkqueueScope", "_graph_pool_handle"),
        *("_clear_storage_data_ptr_access_error_msg", "_construct_CUDA_Tensor_From_Storage_And_Metadata"),
        *("_free_And_Remove_DeleterFn", "_has_Standard_Deleter", "_host_emptyCache", "_rocm_is_backward_pass"),
        *("_set_storage_access_error_msg", "_set_storage_data_ptr_access_error_msg"),
        "_tensors_data_ptrs_at_indices_equal",
    )
)
#: The same for ``torch._C._distributed_c10d``.
_DISTRIBUTED_NAMES = (
    *("NCCLXStub", "ProcessGroupNCCL", "_DEFAULT_PG_NCCL_TIMEOUT", "_dump_nccl_trace", "_dump_nccl_trace_json"),
    *("_get_intra_node_comm_usage_counter", "_hash_tensors", "_is_nvshmem_available", "_nvshmemx_cumodule_init"),
    *("_register_external_nccl_comm", "_reset_fr_recording_nccl", "_unregister_external_nccl_comm"),
)

#: The constants of ``torch._C`` by which torch's back ends name the parts that were compiled in.
_FLAGS = ("_has_cuda", "_has_cudnn", "_has_cusparselt", "_has_magma")


def connect() -> None:
    """Hide CUDA as soon as ``torch._C`` is imported: before the rest of torch asks for it."""
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def disconnect() -> None:
    """Undo :func:`connect`; a torch that was imported since stays as it is."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


def hide() -> None:
    """Hide CUDA in a torch that is imported; does nothing if there is none, or if it is hidden already.

    Where torch was imported before :func:`connect`, the modules that have looked at ``torch._C`` by then are corrected
    one by one.

    Raises:
        EmulationError: this process uses a GPU already.
    """
    import torch

    if torch.cuda.is_initialized():
        raise EmulationError(
            "npu_emulator: this process uses CUDA already, and an emulated NPU cannot be used beside a GPU. Call "
            "npu_emulator.install() before the program uses torch.cuda, or run it with `patchcore run --emulate-npu`."
        )
    if torch.version.cuda is None and not private_torch.is_compiled():
        return
    torch.version.cuda = None
    _replace_tensor_types(torch)
    if private_torch.is_compiled():
        _remove_names(private_torch.C)
        if _DISTRIBUTED in sys.modules:
            _remove_nccl(sys.modules[_DISTRIBUTED])
        _correct(torch)


def _remove_names(extension: ModuleType) -> None:
    """Remove the names that only a CUDA build has, and let the constants say that it was built without CUDA."""
    space = vars(extension)
    for name in [name for name in space if _PREFIXES.match(name) or name in _NAMES]:
        del space[name]
        sys.modules.pop(f"{_EXTENSION}.{name}", None)  # some are modules, which an import would find here
    for flag in _FLAGS:
        space[flag] = False
    space["_is_flash_attention_available"] = lambda: False


def _remove_nccl(distributed: Any) -> None:
    for name in _DISTRIBUTED_NAMES:
        vars(distributed).pop(name, None)


def _executed(extension: Any) -> None:
    """Hide CUDA in ``torch._C``, in the middle of torch's import."""
    if not hasattr(extension, "_cuda_getDeviceCount"):
        return
    _remove_names(extension)
    if hasattr(extension, "_c10d_init"):
        extension._c10d_init = _without_nccl(extension._c10d_init)


def _without_nccl(initialize: Callable[[], bool]) -> Callable[[], bool]:
    """Wrap the function by which ``torch.distributed`` makes its part of the extension module."""

    def _c10d_init() -> bool:
        made = initialize()
        _remove_nccl(sys.modules[_DISTRIBUTED])
        return made

    return _c10d_init


def _replace_tensor_types(torch: Any) -> None:
    """Replace ``torch.cuda.FloatTensor`` and the others, whose calls reach the driver, by classes that refuse them."""

    def refuse(cls: type, *args: object, **kwargs: object) -> None:
        raise TypeError(f"type torch.cuda.{cls.__name__} not available. Torch not compiled with CUDA enabled.")

    for name, made in list(vars(torch.cuda).items()):
        if name.endswith("Tensor") and type(made).__name__ == "tensortype":
            setattr(torch.cuda, name, type(name, (), {"__module__": "torch.cuda", "__new__": refuse}))


def _correct(torch: Any) -> None:
    """Correct the values of ``torch._C`` that torch's modules have kept, as torch 2.13 has it without CUDA."""
    dummy = private_torch.dummy_type
    for cls in (torch.cuda.Event, torch.cuda.CUDAGraph, torch.cuda.MemPool):
        cls.__new__ = dummy(cls.__name__).__new__
    graphs = {name: dummy(name) for name in ("_cuda_isCurrentStreamCapturing", "_graph_pool_handle")}
    exchange = {"_exchange_device": _no_device, "_maybe_exchange_device": _no_device}
    # By functions: torch.backends.cudnn is an object in the place of its module.
    vars(torch.cuda).update(_cudart=None, has_magma=False, **exchange)
    torch.cuda.graph_pool_handle.__globals__.update(graphs)
    torch.cuda.nvtx.mark.__globals__.update(_nvtx=_NoRanges)
    torch.backends.cudnn.version.__globals__.update(_cudnn=None, _init=lambda: False)
    torch.backends.cudnn.rnn.init_dropout_state.__globals__.update(_cudnn=None)
    torch.backends.cusparselt.version.__globals__.update(_cusparselt=None, _init=lambda: False)
    for name in ("torch.distributed", "torch.distributed.distributed_c10d"):
        if name in sys.modules:
            vars(sys.modules[name]).pop("ProcessGroupNCCL", None)
            vars(sys.modules[name]).update(_NCCL_AVAILABLE=False)
    if "torch.utils.cpp_extension" in sys.modules:
        sys.modules["torch.utils.cpp_extension"].CUDA_HOME = None  # type: ignore[attr-defined]


def _no_device(device: int) -> int:
    if device < 0:
        return -1
    raise RuntimeError("PyTorch was compiled without CUDA support")


class _NoRanges:
    """The functions that ``torch.cuda.nvtx`` calls where torch has no NVTX."""

    @staticmethod
    def _fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")

    rangePushA = rangePop = markA = _fail


_finder = NotifyingFinder({_EXTENSION: _executed})
