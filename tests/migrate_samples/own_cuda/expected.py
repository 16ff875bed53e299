"""A project's own cuda(): functions, methods, modules, attributes."""
import torch
import torch_npu  # noqa: F401

from . import cuda as kernels
from .ops import cuda as build
from .data import Loader


def cuda(x):
    return x


class Batch:
    def __init__(self, tensor, cuda=False):
        self.tensor = tensor
        self.use = cuda

    def cuda(self):
        self.tensor = self.tensor.cuda()
        return self

    def again(self):
        return self.cuda()


class Wide(Batch):
    def more(self):
        return super().cuda()


cuda(1)
kernels.cuda()
build("cuda")
Batch(torch.ones(1)).cuda()
batch = Wide(torch.ones(1))
batch.cuda()
torch.ones(1).npu()
made = torch.ones(1)
made.npu()


def move(thing, options):
    if options.cuda:
        thing.cuda()
