#!/usr/bin/env python
# -*- coding: utf-8 -*-
"""Train on cuda devices. "cuda" in prose is prose."""
from __future__ import print_function

import os
import random

import torch, torchvision  # one line
import torch_npu  # noqa: F401
import torch.nn as nn
import torch.backends.cudnn as cudnn

os.environ["ASCEND_RT_VISIBLE_DEVICES"] = "0,1"
os.environ.setdefault('ASCEND_LAUNCH_BLOCKING', "1")

device = torch.device("npu:0" if torch.npu.is_available() else "cpu")   # the device
cudnn.benchmark = True


class Net(nn.Module):
    def __init__(self, device='npu'):
        super().__init__()
        self.device = device
        self.fc = nn.Linear(4, 2, device=device)

    def forward(self, x):
        if x.is_npu:
            x = x.to(self.device, non_blocking=True)
        return self.fc(x)


def seed(n):
    random.seed(n)
    torch.npu.manual_seed_all(n)
    if torch.backends.cudnn.enabled:
        torch.backends.cudnn.deterministic = True


net = Net(
    device = 'npu',  # keeps spaces
)
net = net.npu( ) ; net.train()
state = torch.load("/data/cuda/model.pth", map_location={'cuda:1': 'npu:0'})
torch.load("x", lambda storage, loc: storage.npu(0))
other = torch.load("y", 'npu')
for i in range(torch.npu.device_count()):
    x = torch.zeros(2).to('npu:%d' % i)
    y = torch.zeros(2).to("npu:{}".format(i))
    z = torch.zeros(2).to("npu:" + str(i))
    w = torch.zeros(2, device=f"npu:{i}")
    print("running on cuda:%d" % i)
