"""Collectives of the real ProcessGroupHCCL between processes, and a rank that dies."""

from __future__ import annotations

from typing import Any

import pytest

PROGRAM = """
    import os, sys
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as mp

    def work(rank, size, how):
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=sys.argv[2] if len(sys.argv) > 2 else "29611",
                          RANK=str(rank), WORLD_SIZE=str(size))
        torch.npu.set_device(rank)
        dist.init_process_group("hccl", rank=rank, world_size=size)
        globals()[how](rank, size)
        dist.destroy_process_group()

    def collectives(rank, size):
        for dtype in (torch.float32, torch.int64, torch.float16, torch.bfloat16):
            x = torch.arange(4).to(dtype).npu() + rank
            dist.all_reduce(x)
            assert x.cpu().tolist() == [1, 3, 5, 7], x
        x = torch.full((3,), float(rank)).npu()
        dist.broadcast(x, 1)
        assert x.cpu().tolist() == [1, 1, 1]
        parts = [torch.zeros(2).npu() for _ in range(size)]
        dist.all_gather(parts, torch.full((2,), float(rank)).npu())
        assert [part.cpu().tolist() for part in parts] == [[0, 0], [1, 1]]
        out = torch.zeros(2).npu()
        dist.reduce_scatter_tensor(out, torch.arange(4.0).npu())
        assert out.cpu().tolist() == [[0, 2], [4, 6]][rank]
        out = torch.zeros(2).npu()
        dist.all_to_all_single(out, torch.arange(2.0).npu() + 10 * rank)
        assert out.cpu().tolist() == [[0, 10], [1, 11]][rank]
        large = torch.ones(3 << 20).npu()
        dist.all_reduce(large, op=dist.ReduceOp.MAX)
        assert float(large.sum()) == 3 << 20
        dist.barrier()

    def messages(rank, size):
        other = 1 - rank
        x = torch.arange(3.0).npu() + 10 * rank
        found = torch.zeros(3).npu()
        if rank == 0:
            dist.send(x, 1)
            dist.recv(found, 1)
        else:
            dist.recv(found, 0)
            dist.send(x, 0)
        assert found.cpu().tolist() == [10 * other, 10 * other + 1, 10 * other + 2]
        for _ in range(2):  # both send, then both receive
            found.zero_()
            sent = dist.isend(x, other)
            dist.irecv(found, other).wait()
            sent.wait()
            assert found.cpu().tolist() == [10 * other, 10 * other + 1, 10 * other + 2]
        large = torch.full((3 << 20,), float(rank)).npu()
        dist.send(large, 1) if rank == 0 else dist.recv(large, 0)
        assert float(large.sum()) == 0

    def sizes(rank, size):  # another one for each rank
        mine = torch.arange(rank + 1.0).npu() + 10 * rank
        parts = [torch.zeros(1).npu(), torch.zeros(2).npu()]
        dist.all_gather(parts, mine)
        assert [part.cpu().tolist() for part in parts] == [[0], [10, 11]]
        given = [torch.ones(1).npu() + rank, torch.ones(2).npu() * 3 + rank]
        out = torch.zeros(rank + 1).npu()
        dist.reduce_scatter(out, given)
        assert out.cpu().tolist() == [[3], [7, 7]][rank]
        out = torch.zeros(2 if rank == 0 else 4).npu()
        dist.all_to_all_single(out, torch.arange(3.0).npu() + 10 * rank, [rank + 1] * 2, [1, 2])
        assert out.cpu().tolist() == [[0, 10], [1, 2, 11, 12]][rank]
        large = torch.full((3 << 20,), float(rank)).npu()
        found = torch.zeros(3 << 20).npu()
        both = [dist.P2POp(dist.isend, large, 1 - rank), dist.P2POp(dist.irecv, found, 1 - rank)]
        for work in dist.batch_isend_irecv(both):
            work.wait()
        assert float(found.sum()) == (1 - rank) * (3 << 20)

    def both_receive(rank, size):
        dist.barrier()
        dist.recv(torch.zeros(3).npu(), 1 - rank)
        torch.npu.synchronize()

    def groups(rank, size):
        alone = [dist.new_group([each]) for each in range(size)]
        both = dist.new_group([0, 1])
        x = torch.full((2,), float(rank + 1)).npu()
        dist.all_reduce(x, group=alone[rank])
        assert x.cpu().tolist() == [rank + 1] * 2
        dist.all_reduce(x, group=both)
        assert x.cpu().tolist() == [3, 3]
        assert dist.get_backend(both) == "hccl"

    def training(rank, size):
        torch.manual_seed(0)
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2).npu(), device_ids=[rank])
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        torch.manual_seed(rank)
        for _ in range(3):
            loss = model(torch.randn(5, 4).npu()).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        weights = torch.cat([p.detach().flatten() for p in model.parameters()])
        others = [torch.zeros_like(weights) for _ in range(size)]
        dist.all_gather(others, weights)
        assert torch.equal(others[0].cpu(), others[1].cpu())

    def death(rank, size):
        dist.barrier()
        if rank == 1:
            os._exit(3)
        dist.all_reduce(torch.ones(2).npu())
        torch.npu.synchronize()

    def absence(rank, size):
        dist.barrier()
        if rank == 1:
            os._exit(3)
        dist.isend(torch.ones(2).npu(), 1)  # torch_npu makes a group for the two, which rank 1 never joins
        torch.npu.synchronize()

    if __name__ == "__main__" and sys.argv[1] in ("death", "absence"):  # spawn would end the other rank itself
        ranks = [mp.get_context("spawn").Process(target=work, args=(rank, 2, sys.argv[1])) for rank in range(2)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join(60)
        print([rank.exitcode for rank in ranks])
        for rank in ranks:
            rank.kill()
    elif __name__ == "__main__":
        mp.spawn(work, (2, sys.argv[1]), nprocs=2)
        print("ok")
    """


def test_collectives(on_cann: Any) -> None:
    assert on_cann(PROGRAM, "collectives", "29611").stdout.endswith("ok\n")


def test_ddp(on_cann: Any) -> None:
    assert on_cann(PROGRAM, "training", "29612").stdout.endswith("ok\n")


def test_messages(on_cann: Any) -> None:
    assert on_cann(PROGRAM, "messages", "29614").stdout.endswith("ok\n")


def test_each_rank_may_have_a_size_of_its_own(on_cann: Any) -> None:
    assert on_cann(PROGRAM, "sizes", "29616").stdout.endswith("ok\n")


def test_two_ranks_that_wait_for_each_other_end_with_an_error(on_cann: Any) -> None:
    done = on_cann(PROGRAM, "both_receive", "29617", code=1, timeout=120)
    assert "both ranks receive, and none sends" in done.stderr


def test_the_devices_of_one_process(on_cann: Any) -> None:
    program = """
        import torch

        if torch.version.cuda:  # its scatter, in C++, takes every index for one of CUDA's
            print("CUDA")
            raise SystemExit
        model = torch.nn.DataParallel(torch.nn.Linear(4, 2).npu(), device_ids=[0, 1])
        x = torch.randn(6, 4).npu()
        assert torch.equal(model(x), model.module(x))
        print("ok")
        """
    printed = on_cann(program).stdout
    if printed.endswith("CUDA\n"):
        pytest.skip("torch.nn.DataParallel of a CUDA build of torch scatters to CUDA alone")
    assert printed.endswith("ok\n")


def test_groups(on_cann: Any) -> None:
    assert on_cann(PROGRAM, "groups", "29615").stdout.endswith("ok\n")


def test_a_rank_that_dies_ends_the_others(on_cann: Any) -> None:
    done = on_cann(PROGRAM, "death", "29613", timeout=120)
    assert done.stdout.endswith("[1, 3]\n")
    assert "the process of rank 1 has ended" in done.stderr


def test_a_rank_that_is_missing_in_a_new_group_ends_the_others(on_cann: Any) -> None:
    done = on_cann(PROGRAM, "absence", "29618", timeout=120, HCCL_CONNECT_TIMEOUT="3")
    assert done.stdout.endswith("[1, 3]\n")
    assert "a rank did not come in time (HCCL_CONNECT_TIMEOUT)" in done.stderr
