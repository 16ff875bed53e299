"""The checks that a core of the emulated NPU has to pass, and what the one in Python cannot do.

A check is a behaviour of PyTorch that programs rely on. Tests say which one they belong to::

    @check("storage data pointers")
    def test_a_view_shares_the_pointer() -> None: ...
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

CHECKS = (
    # tensors
    "device type",
    "factories",
    "arithmetic",
    "matmul",
    "conv2d",
    "batch norm",
    "max pool",
    "boolean mask",
    "index_put",
    "sort, topk and nonzero",
    "cat and stack",
    "in-place",
    "scalars and repr",
    "assorted operators",
    "attention",
    "LSTM",
    "LayerNorm",
    "foreach operators",
    "sparse",
    "legacy tensor types",
    # views, copies, storages
    "views that alias",
    "out=",
    "resize",
    "transfers",
    "storage data pointers",
    "save and load",
    "pickle and deepcopy",
    # devices
    "mixed devices raise",
    "several devices",
    "backward across devices",
    "a bad device index raises",
    "set_device and friends",
    "memory statistics",
    "torch.accelerator",
    "torch.accelerator with several devices",
    "streams and events",
    "generic Stream and Event",
    # training
    "Module.to keeps parameter identity",
    "SGD and AdamW, one tensor at a time",
    "SGD and AdamW, foreach",
    "SGD and AdamW, fused",
    "clip_grad",
    "autocast float16",
    "autocast bfloat16",
    "custom_fwd and custom_bwd",
    "GradScaler",
    "checkpoint with autocast",
    "autograd corner cases",
    "a detector-like model",
    # random numbers and data
    "generators",
    "generator mismatch raises",
    "default random generator",
    "random numbers independent of the CPU's",
    "DataLoader",
    "pin_memory",
    "spawned workers",
    # processes
    "hccl on gloo",
    "hccl with a device per rank",
    "DDP",
    "SyncBatchNorm",
    # PyTorch's machinery
    "torch.compile with backend eager",
    "torch.compile with backend aot_eager",
    "functorch",
    "FakeTensor",
    "custom operator library",
    "tensor subclasses and modes",
    "threads and garbage collection",
    # the vendor's package
    "import torch_npu",
    "find_spec of torch_npu",
    "transfer_to_npu",
    "profiler",
)


@dataclass(frozen=True)
class Limit:
    """Something of the real device that a core has not.

    Args:
        check: the one of :data:`CHECKS` that is passed but for this.
        cores: those that it is true of.
        error: full name of the class of the error that says so; ``None``: nothing says so, a test has to state what
            happens instead.
        message: what the error says, as a regular expression.
    """

    check: str
    cores: tuple[str, ...]
    error: str | None = None
    message: str = ""


NOT_EMULATED = "npu_emulator.errors.NotEmulated"

#: Everything that a core cannot do, by what it cannot do.
LIMITS = {
    "resize a storage": Limit("resize", ("python",), NOT_EMULATED, r"resize.*storage|storage.*resize"),
    # torch's own error: pinned memory is allocated in C++, which asks no Python. Tensor.pin_memory() works.
    "allocate pinned memory": Limit(
        "pin_memory", ("python",), "builtins.NotImplementedError", r"PrivateUse1.*getPinnedMemoryAllocator"
    ),
    "reject a generator of another device": Limit("generator mismatch raises", ("python",)),
    "time a generic event": Limit("generic Stream and Event", ("python",), NOT_EMULATED, r"elapsed"),
    "compute with sparse CSR tensors": Limit(
        "sparse", ("python", "native"), "builtins.NotImplementedError", r"(?i)csr"
    ),
}


def check(name: str) -> pytest.MarkDecorator:
    """Return the mark that says which check a test or a class of tests belongs to.

    Args:
        name: one of :data:`CHECKS`.

    Raises:
        ValueError: there is no such check.
    """
    if name not in CHECKS:
        raise ValueError(f"no check is named {name!r}; the names are in {__file__}")
    return pytest.mark.check(name)


@contextlib.contextmanager
def within_limit(name: str) -> Iterator[None]:
    """Run a block, and where it is beyond what the core can do, demand the error that says so.

    Args:
        name: one of :data:`LIMITS`, one with an error.
    """
    limit = LIMITS[name]
    if not is_limited(name):
        yield
        return
    assert limit.error is not None, f"nothing is raised for {name!r}: state what happens instead"
    with pytest.raises(Exception, match=limit.message) as caught:
        yield
    classes = [f"{base.__module__}.{base.__qualname__}" for base in type(caught.value).__mro__]
    assert limit.error in classes, f"expected {limit.error}, found {classes[0]}: {caught.value}"


def is_limited(name: str) -> bool:
    """Tell whether something of :data:`LIMITS` is beyond the core of this process."""
    from npu_emulator import device

    return device.active().name in LIMITS[name].cores
