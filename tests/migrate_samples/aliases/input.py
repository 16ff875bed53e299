import torch as t
from torch import cuda
from torch import cuda as c, nn
from torch.cuda import Stream, CUDAGraph, nvtx, \
    Event as Ev
import torch.cuda, torch.cuda.amp

DP = nn.DataParallel
gpu = t.cuda
empty = gpu.empty_cache

cuda.synchronize()
c.CUDAGraph()
c.nvtx.mark("x")
s = Stream("cuda:1")
g = CUDAGraph(), Ev()
nvtx.mark("y")
gpu.set_device("cuda:1")
empty()
t.cuda.get_arch_list()
t.cuda.brand_new_function()
DP(nn.Linear(1, 1))
t.cuda.\
    synchronize()
(t
 .cuda  # why
 .empty_cache)()
