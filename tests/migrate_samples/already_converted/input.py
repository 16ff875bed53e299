import torch
import torch_npu  # noqa: F401

x = torch.ones(1, device="npu:0").npu()
torch.npu.synchronize()
