#!/usr/bin/env python
# -*- coding: utf-8 -*-
"""Train on cuda devices. "cuda" in prose is prose."""
from __future__ import print_function

import os
import random

import torch, torchvision  # one line
import torch.nn as nn
import torch.backends.cudnn as cudnn

os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"
os.environ.setdefault('CUDA_LAUNCH_BLOCKING', "1")

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")   # the device
cudnn.benchmark = True


class Net(nn.Module):
    def __init__(self, device='cuda'):
        super().__init__()
        self.device = device
        self.fc = nn.Linear(4, 2, device=device)

    def forward(self, x):
        if x.is_cuda:
            x = x.to(self.device, non_blocking=True)
        return self.fc(x)


def seed(n):
    random.seed(n)
    torch.cuda.manual_seed_all(n)
    if torch.backends.cudnn.enabled:
        torch.backends.cudnn.deterministic = True


net = Net(
    device = 'cuda',  # keeps spaces
)
net = net.cuda( ) ; net.train()
state = torch.load("/data/cuda/model.pth", map_location={'cuda:1': 'cuda:0'})
torch.load("x", lambda storage, loc: storage.cuda(0))
other = torch.load("y", 'cuda')
for i in range(torch.cuda.device_count()):
    x = torch.zeros(2).to('cuda:%d' % i)
    y = torch.zeros(2).to("cuda:{}".format(i))
    z = torch.zeros(2).to("cuda:" + str(i))
    w = torch.zeros(2, device=f"cuda:{i}")
    print("running on cuda:%d" % i)
