import amp_C
import triton
import triton.language as tl
import xformers.ops as xops
from apex import amp
from flash_attn import flash_attn_func
from mmcv.ops import DeformConv2d
from torch.utils.cpp_extension import BuildExtension, CUDAExtension, load_inline
import torch
import torchvision
import numba.cuda

torch.nn.DataParallel(torch.nn.Linear(1, 1)).cuda()
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.deterministic = True
torch.backends.cuda.enable_flash_sdp(True)
major = torch.cuda.get_device_capability()[0]
version = torch.version.cuda
model = torch.compile(torch.nn.Linear(1, 1, dtype=torch.float64))
torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
torch.unique(torch.ones(3))
ext = load_inline(
    "scale",
    cpp_sources="",
    cuda_sources="__global__ void scale_kernel(float* x) {}",
    functions=["scale"],
)
import vllm
import transformer_engine.pytorch as te
