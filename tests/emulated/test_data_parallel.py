"""``nn.DataParallel`` on emulated NPUs without transfer_to_npu: the functions that torch_npu adds to ``torch._C``."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.parallel import comm, data_parallel, gather, scatter

DEVICES = [torch.device("npu", 0), torch.device("npu", 1)]


def layer() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(4, 2)


@pytest.mark.parametrize("devices", [None, [0], [0, 1], DEVICES])
@pytest.mark.parametrize("on", ["cpu", "npu"])
def test_a_model_trains_as_on_the_cpu(devices: list[int] | None, on: str) -> None:
    inputs = torch.arange(24.0).view(6, 4) / 10
    expected, model = layer(), nn.DataParallel(layer().to("npu"), device_ids=devices)
    expected(inputs).square().sum().backward()
    outputs = model(inputs.to(on))
    outputs.square().sum().backward()
    assert outputs.device == DEVICES[0]
    torch.testing.assert_close(outputs.cpu(), expected(inputs))
    torch.testing.assert_close(model.module.weight.grad.cpu(), expected.weight.grad)


def test_every_device_gets_its_part_of_what_is_nested() -> None:
    tensor = torch.arange(6.0)
    parts = scatter({"a": tensor, "names": "text"}, [0, 1])
    assert [part["a"].device for part in parts] == DEVICES
    assert [part["names"] for part in parts] == ["text", "text"]
    assert gather([part["a"] for part in parts], 1).tolist() == tensor.tolist()


def test_the_output_may_be_on_another_device() -> None:
    assert data_parallel(layer().to("npu"), torch.ones(3, 4), [0, 1], output_device=1).device == DEVICES[1]


def test_parts_of_given_sizes_and_given_tensors() -> None:
    tensor = torch.arange(6.0, device="npu")
    parts = comm.scatter(tensor, [0, 1], chunk_sizes=[4, 2])
    assert [part.tolist() for part in parts] == [[0, 1, 2, 3], [4, 5]]
    out = [torch.empty(2, device="npu:0"), torch.empty(4, device="npu:1")]
    assert [part.tolist() for part in comm.scatter(tensor, out=out)] == [[0, 1], [2, 3, 4, 5]]
    assert comm.gather(out, out=torch.empty(6, device="npu:1")).tolist() == tensor.tolist()
    assert comm.gather(out, destination="cpu").device.type == "cpu"
    copies = comm.broadcast(tensor, out=[torch.empty(6, device=device) for device in DEVICES])
    assert [copy.device for copy in copies] == DEVICES
    assert comm.broadcast(tensor, [0, 1])[1].tolist() == tensor.tolist()


def test_what_does_not_fit_is_refused() -> None:
    tensor = torch.arange(6.0, device="npu")
    with pytest.raises(RuntimeError, match="Expected devices and chunk_sizes to be of same length"):
        comm.scatter(tensor, [0, 1], chunk_sizes=[6])
    with pytest.raises(RuntimeError, match=r"to have the shape \(6,\), found \(5,\)"):
        comm.broadcast(tensor, out=[torch.empty(5, device="npu")])


def test_versions_are_those_that_torch_npu_gives() -> None:
    assert torch.version.cuda is None
    assert torch.version.cann == "not known"
