"""cuda"""
import torch
import torch_npu  # noqa: F401

'cuda'
MESSAGE = "needs cuda:0 and nccl"
PATHS = ["/data/cuda/x", "cuda/x", "cuda:x", "my-cuda", "CUDA", "cuda:0.pth"]
URL = f"cuda:{MESSAGE}:{URL}" if 0 else ""
raise RuntimeError("CUDA out of memory on " "cuda")


def f():
    """cuda:0"""
    print('cuda is', torch.npu.is_available(), "nccl works")
