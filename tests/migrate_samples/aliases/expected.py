import torch as t
import torch_npu  # noqa: F401
from torch_npu import npu as cuda
from torch_npu import npu as c
from torch import nn
from torch_npu.npu import Stream, NPUGraph as CUDAGraph, Event as Ev
from torch.cuda import nvtx
import torch

DP = nn.DataParallel
gpu = t.npu
empty = gpu.empty_cache

cuda.synchronize()
c.NPUGraph()
c.nvtx.mark("x")
s = Stream("npu:1")
g = CUDAGraph(), Ev()
nvtx.mark("y")
gpu.set_device("npu:1")
empty()
t.cuda.get_arch_list()
t.cuda.brand_new_function()
DP(nn.Linear(1, 1))
t.npu.\
    synchronize()
(t
 .npu  # why
 .empty_cache)()
