import torch_npu.npu.amp as amp
import torch_npu  # noqa: F401
import torch
from torch_npu.npu.amp import GradScaler, autocast, custom_fwd as fwd
from torch.amp import autocast as generic


class F(torch.autograd.Function):
    @staticmethod
    @fwd(cast_inputs=torch.float32)
    def forward(ctx, x):
        return x

    @staticmethod
    @torch.npu.amp.custom_bwd
    def backward(ctx, g):
        return g


scaler = GradScaler(enabled=torch.npu.is_available())
other = torch.amp.GradScaler("npu")
third = torch.GradScaler(device="npu")


@autocast()
def step(x):
    with amp.autocast(dtype=torch.bfloat16), generic("npu"), torch.autocast(device_type='npu', dtype=torch.float16):
        return x


torch.get_autocast_gpu_dtype()
