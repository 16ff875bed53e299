"""``NPU_EMULATOR_RANDOM=cpu``: a program draws on the device the numbers that it draws on the CPU.

The device cannot be started a second time in a process, so each program has one of its own.
"""

from __future__ import annotations

import json

import pytest
from running import output_of

import npu_emulator
from npu_emulator.settings import Settings, make_settings

#: Draws in turn on the device and on the host, with and without generators, with state saved and set back.
PROGRAM = """
import json, sys, torch
from torch import nn
if sys.argv[1] == "npu":
    import npu_emulator
    npu_emulator.install()
    import torch_npu
device = torch.device(sys.argv[1])
own = torch.npu if sys.argv[1] == "npu" else torch
torch.manual_seed(3)
found = [torch.randn(3, device=device), torch.rand(2), torch.randperm(5, device=device)]
found += [torch.empty(4, device=device).normal_(), nn.functional.dropout(torch.ones(8, device=device), 0.5)]
found += [torch.bernoulli(torch.full((6,), 0.5, device=device)), torch.multinomial(torch.ones(5, device=device), 3)]
found += [nn.init.kaiming_normal_(torch.empty(2, 3, device=device)), torch.randint(9, (3,), device=device)]
state = own.get_rng_state()
found += [torch.rand(2, device=device)]
own.set_rng_state(state)
found += [torch.rand(2), torch.randn(1)]
own.manual_seed(5)
found += [torch.randn(3), torch.randn(3, device=device)]
seeded = torch.Generator(device).manual_seed(4)
found += [torch.rand(2, device=device, generator=seeded), torch.rand(1, device=device)]
if sys.argv[1] == "npu":
    assert torch.npu.default_generators[0].device == torch.device("npu", 0)
    shared = torch.rand(1, device=device, generator=torch.npu.default_generators[0])
else:
    shared = torch.rand(1, generator=torch.default_generator)
found += [shared, torch.rand(1)]
print(json.dumps([tensor.cpu().tolist() for tensor in found]))
"""


def drawn(device: str, random: str) -> list[list[float]]:
    return json.loads(output_of(PROGRAM, device, NPU_EMULATOR_RANDOM=random))


def test_the_numbers_are_those_of_the_cpu() -> None:
    assert drawn("npu", "cpu") == drawn("cpu", "cpu")


def test_without_it_the_device_has_numbers_of_its_own() -> None:
    assert drawn("npu", "device") != drawn("cpu", "cpu")


def test_another_source_is_refused_by_name() -> None:
    assert make_settings(environ={"NPU_EMULATOR_RANDOM": "cpu"}) == Settings(random="cpu")
    with pytest.raises(npu_emulator.EmulationError, match="NPU_EMULATOR_RANDOM is one of device, cpu, found 'gpu'"):
        make_settings(environ={"NPU_EMULATOR_RANDOM": "gpu"})
