"""Data loaders, pinned memory and worker processes beside an emulated NPU."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from comparing import assert_same
from data_sets import Squares
from limits import within_limit
from torch.utils.data import DataLoader

FOLDER = Path(__file__).parent
EXPECTED = [float(number**2) for number in range(16)]


def loaded(loader: DataLoader) -> list[float]:
    """Return all values of a loader, having sent every batch to the NPU."""
    batches = [values.to("npu", non_blocking=True) for values, _ in loader]
    assert all(batch.is_npu for batch in batches)
    return torch.cat(batches).flatten().tolist()


class TestDataLoader:
    @pytest.mark.parametrize("workers", [0, 2], ids=["here", "workers"])
    def test_batches_arrive(self, workers: int) -> None:
        assert loaded(DataLoader(Squares(), batch_size=5, num_workers=workers)) == EXPECTED

    def test_shuffling_follows_the_seed_of_the_cpu(self) -> None:
        torch.manual_seed(1)
        first = loaded(DataLoader(Squares(), batch_size=4, shuffle=True))
        torch.manual_seed(1)
        torch.rand(10, device="npu")
        assert loaded(DataLoader(Squares(), batch_size=4, shuffle=True)) == first != EXPECTED


class TestPinnedMemory:
    def test_pinning_copies_and_says_so(self) -> None:
        tensor = torch.arange(3.0)
        pinned = tensor.pin_memory()
        assert pinned.is_pinned()
        assert not tensor.is_pinned()
        assert pinned.is_cpu
        assert torch.equal(pinned, tensor)
        assert_same(pinned.to("npu", non_blocking=True), tensor)

    def test_factories(self) -> None:
        with within_limit("allocate pinned memory"):
            assert torch.empty(3, pin_memory=True).is_pinned()

    def test_a_loader_that_pins(self) -> None:
        loader = DataLoader(Squares(), batch_size=8, pin_memory=True)
        assert all(values.is_pinned() for values, _ in loader)
        assert loaded(loader) == EXPECTED

    def test_npu_tensors_are_not_pinned(self) -> None:
        assert not torch.zeros(2, device="npu").is_pinned()


class TestSpawnedWorkers:
    def test_a_loader_with_spawned_workers(self) -> None:
        loader = DataLoader(Squares(), batch_size=8, num_workers=1, multiprocessing_context="spawn")
        assert loaded(loader) == EXPECTED

    def test_a_spawned_process_emulates_when_it_asks_for_it(self, tmp_path: Path) -> None:
        # A program as users write it: what spawn imports again is its main module, which emulates first.
        program = tmp_path / "program.py"
        program.write_text(
            textwrap.dedent(
                """
                import npu_emulator

                npu_emulator.install()
                import torch
                import torch.multiprocessing as mp
                from data_sets import describe_npu

                if __name__ == "__main__":
                    context = mp.get_context("spawn")
                    results = context.Queue()
                    processes = [context.Process(target=describe_npu, args=(index, results)) for index in range(2)]
                    for process in processes:
                        process.start()
                    print(sorted(results.get(timeout=900) for _ in processes))
                    for process in processes:
                        process.join()
                        assert process.exitcode == 0
                """
            )
        )
        path = os.pathsep.join([str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])])
        done = subprocess.run(
            [sys.executable, str(program)],
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == "[('npu:0', [0.0, 1.0, 2.0]), ('npu:1', [1.0, 2.0, 3.0])]"
