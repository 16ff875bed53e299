import torch.cuda.amp as amp
import torch
from torch.cuda.amp import GradScaler, autocast, custom_fwd as fwd
from torch.amp import autocast as generic


class F(torch.autograd.Function):
    @staticmethod
    @fwd(cast_inputs=torch.float32)
    def forward(ctx, x):
        return x

    @staticmethod
    @torch.cuda.amp.custom_bwd
    def backward(ctx, g):
        return g


scaler = GradScaler(enabled=torch.cuda.is_available())
other = torch.amp.GradScaler("cuda")
third = torch.GradScaler(device="cuda")


@autocast()
def step(x):
    with amp.autocast(dtype=torch.bfloat16), generic("cuda"), torch.autocast(device_type='cuda', dtype=torch.float16):
        return x


torch.get_autocast_gpu_dtype()
