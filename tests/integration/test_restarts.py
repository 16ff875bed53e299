"""torchrun starts the ranks again after a failure: what the new ranks patch is compared, not what the old ones did."""

from __future__ import annotations

import pytest
from distributions import write_distribution
from launching import PYTHON, RUN, Workplace, lines_with
from test_every_process import PATCH

pytest.importorskip("torch")

#: Gloo reads the keys of the last generation, too, and hangs or fails in most restarts (torch 2.13). Backends for
#: devices connect later; the fake backend never does, and has the store of the job all the same.
TRAIN = """
import os, sys, time
import torch, torch.distributed as dist
import torch.testing._internal.distributed.fake_pg

store, rank, size = next(dist.rendezvous("env://"))
dist.init_process_group("fake", store=store, rank=rank, world_size=size)
if os.environ["TORCHELASTIC_RESTART_COUNT"] < "2":
    if dist.get_rank() == 1:
        time.sleep(0.5)
        sys.exit(3)
    time.sleep(600)
"""
#: The patch is lost in rank 1 of the first generation, or of all others.
PLUGIN = PATCH.replace(
    "    return [seven]",
    """    import os
    restarted = os.environ.get("TORCHELASTIC_RESTART_COUNT") != "0"
    return [] if os.environ.get("RANK") == "1" and restarted == (os.environ["LOST"] == "later") else [seven]""",
)
TORCHRUN = (*PYTHON, "-m", "torch.distributed.run", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    place = Workplace(
        tmp_path_factory.mktemp("restarts"), {"site-0/acme_npu.py": PLUGIN, "train.py": TRAIN}, plugins="acme"
    )
    write_distribution(place.site, "acme-npu", "1.2", plugins={"acme": "acme_npu"})
    return place


@pytest.mark.parametrize("lost", ["first", "later"])
def test_ranks_of_a_restart_are_compared_with_each_other(place: Workplace, lost: str) -> None:
    torchrun = (*TORCHRUN, "--max-restarts", "2", "--nproc-per-node", "2", "train.py")
    job = place.run(*RUN, "--", *torchrun, LOST=lost)
    generations: dict[int, set[str]] = {}
    for report in job.reports:
        if report["role"] == "rank" and "generation" in report["job"]:
            generations.setdefault(report["job"]["generation"], set()).add(report["digest"])
    assert {number: len(digests) for number, digests in generations.items()} == (
        {1: 2, 2: 1, 3: 1} if lost == "first" else {1: 1, 2: 2, 3: 2}
    )
    lines = lines_with(job.ours, "rank 1 differs from rank 0: patch")
    assert len(lines) == (1 if lost == "first" else 2), job.err
    ranks = [report for report in job.reports if report["role"] == "rank"]
    assert sorted((r["job"]["restart"], r["job"]["local_rank"], r["finished"]) for r in ranks) == [
        *((restart, rank, rank == 1) for restart in (0, 1) for rank in (0, 1)),  # rank 1 has ended by itself
        (2, 0, True),
        (2, 1, True),
    ]
    code, text = job.report()
    assert text.count("replaced") == 4, text
    assert code == (lost == "later")
