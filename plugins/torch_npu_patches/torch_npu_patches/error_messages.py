"""Advice on errors that end programs written for CUDA on an NPU.

docs/troubleshooting.md has these and more, with the causes.
"""

from __future__ import annotations

from typing import Optional

__all__ = ["advise_on_error", "advise_on_module"]

#: Words of a message, and the advice. The last line of a run says why nothing moved to an NPU, so that is not here.
_MESSAGES = {
    "without ATen_cuda library": "a device that is no literal in a call of a script (torch.jit.script), or in __new__ "
    'of a class derived from torch.Generator, stays "cuda": write x.to("cuda") in the script, "npu" in __new__',
    "re-initialize NPU in forked subprocess": 'start processes by spawn: multiprocessing.get_context("spawn"), '
    'DataLoader(..., multiprocessing_context="spawn")',
    "NVTX functions not installed": "torch.cuda.nvtx is CUDA's; torch.profiler.record_function marks ranges on every "
    "device, and patchcore run --markers mstx marks modules",
    "CUDA_HOME environment variable is not set": "the program builds a CUDA extension, which runs on no NPU; "
    "patchcore migrate . lists the places and what there is instead",
    "implementation for device npu": "this build of mmcv has no kernel for NPUs there; patchcore list mmcv --all shows "
    "the patches that replace such operators, and what they need",
    "not implemented for DT_DOUBLE": "the kernel takes no float64; patchcore ops PROGRAM lists the operators that get "
    "float64, with their lines",
    "active drivers ([])": "triton has no driver for this device; triton-ascend compiles for NPUs",
    "contiguous_format or preserve_format": "an NPU takes no torch.channels_last: leave memory_format out",
    "only supported contiguous memory format": "an NPU takes no torch.channels_last: leave memory_format out",
    "invalid type object": 'for a type of NPUs write torch.set_default_dtype(...) and torch.set_default_device("npu")',
    "Failed to load the backend extension: torch_npu": "torch loads an installed torch_npu by itself: set the "
    "environment of CANN, or TORCH_DEVICE_BACKEND_AUTOLOAD=0 on a machine without an NPU",
    "ASCEND_HOME_PATH": "set the environment of CANN: source /usr/local/Ascend/ascend-toolkit/set_env.sh",
    "libhccl.so": "set the environment of CANN: source /usr/local/Ascend/ascend-toolkit/set_env.sh",
}

_STUB = "patchcore migrate . lists the places; pc.StubImport lets an import pass that the program does not need"

#: Libraries whose kernels are for GPUs.
_MODULES = {
    "flash_attn": "its kernels are for GPUs; torch_npu.npu_fusion_attention or "
    "torch.nn.functional.scaled_dot_product_attention stand in its place, and pc.StubImport lets an import pass that "
    "the program does not need",
    "bitsandbytes": f"its kernels are for GPUs; {_STUB}",
    "triton": "it compiles for GPUs; triton-ascend compiles many of its kernels for NPUs",
    "vllm": "its kernels are for GPUs; vllm-ascend is for NPUs",
    "transformer_engine": "its kernels are for GPUs; MindSpeed has counterparts for NPUs",
    "megatron": "on an NPU it runs with MindSpeed",
    "pynvml": "it asks the driver of NVIDIA; npu-smi info shows the same of NPUs",
}


def advise_on_error(message: str) -> Optional[str]:
    """Return advice on an error with this message, ``None`` without any."""
    return next((advice for words, advice in _MESSAGES.items() if words in message), None)


def advise_on_module(name: str) -> Optional[str]:
    """Return advice on a missing module that has a substitute for NPUs, ``None`` without any."""
    return _MODULES.get(name.partition(".")[0])
