"""Every collective of ``torch.distributed`` between two processes with an emulated NPU each.

``python collectives.py RANK FILE OPTIONS`` runs them all as one of the two; FILE is where the two find each other, and
OPTIONS are keyword arguments of ``init_process_group`` as JSON.
"""

from __future__ import annotations

import json
import sys
import weakref
from typing import Any, Callable

import npu_emulator

npu_emulator.install(devices=2)

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed._functional_collectives as functional  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from npu_emulator.device import hccl  # noqa: E402

SCENARIOS: list[Callable[[int], Any]] = []
SIZE = 2


def scenario(function: Callable[[int], Any]) -> Callable[[int], Any]:
    """Mark a function as one to call with the rank; what it returns is compared between the ranks' expectations."""
    SCENARIOS.append(function)
    return function


def full(value: float, *size: int) -> Tensor:
    """Return a tensor of one value on this rank's device."""
    return torch.full(size or (2,), float(value), device="npu")


@scenario
def reduce_to_one(rank: int) -> Any:
    tensor = full(rank + 1)
    dist.reduce(tensor, 0)
    return tensor.tolist() if rank == 0 else None


@scenario
def largest(rank: int) -> Any:
    tensor = full(rank)
    dist.all_reduce(tensor, dist.ReduceOp.MAX)
    return tensor.tolist()


@scenario
def usual_ones(rank: int) -> Any:
    summed, sent = full(rank + 1), full(rank + 1)
    dist.all_reduce(summed, async_op=True).wait()
    dist.broadcast(sent, src=1)
    gathered = [torch.empty_like(sent) for _ in range(SIZE)]
    dist.all_gather(gathered, full(rank))
    found: list[Any] = [None] * SIZE
    dist.all_gather_object(found, {"rank": rank})
    assert summed.device == torch.device("npu", rank)
    return summed.tolist(), sent.tolist(), [one.tolist() for one in gathered], found


@scenario
def gather_in_another_form(rank: int) -> Any:
    stacked, joined = torch.empty(2, 3, device="npu"), torch.empty(6, device="npu")
    dist.all_gather_into_tensor(stacked, full(rank, 3))
    dist.all_gather_into_tensor(joined, full(rank, 3))
    return stacked.tolist(), joined.tolist()


@scenario
def reduce_scatter(rank: int) -> Any:
    one, other = full(0, 2), full(0, 2)
    dist.reduce_scatter_tensor(one, torch.arange(4.0, device="npu").view(2, 2))
    dist.reduce_scatter(other, [full(1), full(2)])
    return one.tolist(), other.tolist()


@scenario
def all_to_all(rank: int) -> Any:
    single, pieces = full(0, 2), [full(0, 1), full(0, 1)]
    mine = torch.tensor([rank * 2.0, rank * 2.0 + 1], device="npu")
    dist.all_to_all_single(single, mine)
    dist.all_to_all(pieces, list(mine.split(1)))
    return single.tolist(), [piece.tolist() for piece in pieces]


@scenario
def gather_and_scatter(rank: int) -> Any:
    gathered = [full(0, 1), full(0, 1)] if rank == 0 else None
    dist.gather(full(rank, 1), gathered)
    mine = full(0, 1)
    dist.scatter(mine, [full(5, 1), full(6, 1)] if rank == 0 else None)
    return [tensor.tolist() for tensor in gathered or ()], mine.tolist()


@scenario
def point_to_point(rank: int) -> Any:
    received, exchanged = full(0), full(0)
    if rank == 0:
        dist.send(full(7), 1)
    else:
        dist.recv(received)
    operations = [dist.P2POp(dist.isend, full(rank), 1 - rank), dist.P2POp(dist.irecv, exchanged, 1 - rank)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    return received.tolist(), exchanged.tolist()


@scenario
def functional_collectives(rank: int) -> Any:
    world = dist.group.WORLD
    reduced = functional.wait_tensor(functional.all_reduce(full(1), "sum", world))
    gathered = functional.wait_tensor(functional.all_gather_tensor(full(rank), 0, world))
    assert reduced.device == gathered.device == torch.device("npu", rank)
    return reduced.tolist(), gathered.tolist()


@scenario
def objects(rank: int) -> Any:
    found: list[Any] = [{"from": rank}]
    dist.broadcast_object_list(found, 1)
    return found


@scenario
def subgroups(rank: int) -> Any:
    both, alone = dist.new_group([0, 1]), dist.new_group([1])
    tensor, other = full(1), full(1)
    dist.all_reduce(tensor, group=both)
    if rank == 1:
        dist.all_reduce(other, group=alone)
    dist.barrier()
    return tensor.tolist(), other.tolist()


@scenario
def tensors_of_the_cpu(rank: int) -> Any:
    tensor = torch.ones(1)
    try:
        dist.all_reduce(tensor)
    except RuntimeError as error:
        return str(error)
    return tensor.tolist()


@scenario
def gaps(rank: int) -> Any:
    try:
        dist.all_gather_into_tensor(full(0, 2, 2).t(), full(0, 2))
    except ValueError as error:
        return str(error)
    return None


@scenario
def gradients_in_buckets(rank: int) -> Any:
    torch.manual_seed(0)
    model = nn.Linear(2, 1).npu()
    parallel = DistributedDataParallel(model, device_ids=[rank], gradient_as_bucket_view=True)
    parallel(full(rank + 1, 1, 2)).sum().backward()
    assert model.weight.grad.device == torch.device("npu", rank)
    return model.weight.grad.tolist()


class Carried:
    """What a thread carries while it begins a collective. To drop it, gloo needs Python's lock."""


@scenario
def held_by_gloo_when_the_group_is_gone(rank: int) -> list[bool]:
    group = dist.new_group()
    other_holder = group.boxed()  # such as the reducer of a DistributedDataParallel; torch drops it with Python's lock
    if rank == 1:
        dist.recv(full(0), 0)  # gloo of rank 0 waits for this rank until then
    carried = Carried()
    torch._C._stash_obj_in_tls("tests", carried)  # as a backward pass does
    dist.all_reduce(full(rank, 2), group=group, async_op=True)
    torch._C._remove_obj_from_tls("tests")
    held = weakref.ref(carried)
    del carried
    dist.destroy_process_group(group)
    del group
    del other_holder  # must not wait for gloo, whose thread needs Python's lock to drop `carried`
    in_flight = held() is not None
    if rank == 0:
        dist.send(full(0), 1)
    dist.new_group()
    return [rank == 1 or in_flight, held() is not None]


@scenario
def kept_of_a_group_that_is_gone(rank: int) -> int:
    before = len(hccl._backends.names())
    group = dist.new_group()
    dist.all_reduce(full(rank), group=group)
    dist.destroy_process_group(group)
    del group
    return len(hccl._backends.names()) - before


def main(rank: int, file: str, options: dict[str, Any]) -> None:
    """Join the group, run every scenario, print what each found as JSON."""
    torch.npu.set_device(rank)
    if options.pop("bound", False):
        options["device_id"] = torch.device("npu", rank)
    dist.init_process_group(init_method=f"file://{file}", rank=rank, world_size=SIZE, **options)
    found = {function.__name__: function(rank) for function in SCENARIOS}
    dist.destroy_process_group()
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
