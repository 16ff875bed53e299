"""torch is imported where it is needed."""
import os


def first():
    import torch
    import torch_npu  # noqa: F401
    return torch.npu.is_available()


def second():
    import torch
    return torch.ones(1)


def third():
    if os.name: import torch; import torch_npu; return torch.zeros(1, device="npu")
