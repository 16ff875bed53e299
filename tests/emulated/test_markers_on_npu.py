"""Markers on the emulated NPU: ``torch_npu.npu.mstx`` is what ``auto`` takes, and training is what it was."""

from __future__ import annotations

from typing import Any

import torch

import torch_markers as markers
from npu_emulator.torch_npu.npu import _mstx


def train() -> Any:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2)).to("npu")
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.ones(3, 4, device="npu") * torch.tensor(2.0, device="npu")).sum().backward()
    optimizer.step()
    return [parameter.cpu().tolist() for parameter in model.parameters()]


def test_training_is_the_same_and_every_range_is_closed() -> None:
    plain = train()
    _mstx.records.clear()
    with markers.start("auto"):
        assert train() == plain
        assert not _mstx._open
    said = [markers.parse(record.message) for record in _mstx.records]
    assert all(said)
    modules = [(one["name"], one.get("dir")) for one in said if one and "strRepr" in one]
    assert modules == [
        *(("0", None), ("1", None), ("2", None), ("Sequential", None)),
        *(("2", "bwd"), ("1", "bwd"), ("0", "bwd"), ("Sequential", "bwd")),
    ]
    assert not torch._C._len_torch_function_stack()
