"""Launchers besides torchrun on one machine: accelerate, Open MPI, MPICH, DeepSpeed, and torchrun on two hosts."""

from __future__ import annotations

import json
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from distributions import write_distribution
from launching import PYTHON, ROOT, RUN, Job, Workplace, lines_with, on_host
from test_every_process import PATCH

from patchcore.cli import main

pytest.importorskip("torch")

TRAIN = """
import os
import torch
import torch.distributed as dist
from torch.nn.functional import relu

if os.environ.get("WORLD_SIZE", "1") != "1":
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


#: Open MPI's mpirun refuses root, and more ranks than cores, without these options. The wheels of both have an
#: ``mpirun``, so that MPICH is in a folder of its own (``nox -s clusters``).
MPIRUN = {"Open MPI": ("mpirun", "--allow-run-as-root", "--oversubscribe"), "MPICH": ("mpich/bin/mpirun",)}


@pytest.mark.parametrize("kind", MPIRUN)
class TestMPI:
    @pytest.fixture
    def mpirun(self, kind: str) -> tuple[str, ...]:
        name, *options = MPIRUN[kind]
        path = Path(sys.executable).parent / name
        if not path.exists():
            pytest.skip(f"needs mpirun of {kind}, {path}")
        return (str(path), *options, "-n", "2")

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


PAGE = (ROOT / "docs" / "clusters.md").read_text()


def block_of_page(heading: str, language: str) -> str:
    """Return the first block of code below a heading of docs/clusters.md."""
    return PAGE.partition(f"\n## {heading}\n")[2].partition(f"```{language}\n")[2].partition("```\n")[0]


#: In the place of pdsh, which reaches other hosts by ssh: each host has a name and an environment of its own here.
PDSH = """#!/bin/bash
while [[ $1 == -* ]]; do
    case $1 in -w) hosts=$2; shift 2 ;; -f) shift 2 ;; *) shift ;; esac
done
[[ $1 == pkill* ]] && exit
number=0
for host in ${hosts//,/ }; do
    unshare --uts env -i PATH="$PATH" OMP_NUM_THREADS=1 bash -c "hostname $host; ${*//%n/$number}" &
    number=$((number + 1))
done
wait
"""


class TestDeepSpeed:
    """DeepSpeed hands a few variables on to the hosts of a hostfile, and the lines of the file that the page writes."""

    def test_ranks_on_the_hosts_of_a_hostfile(self, place: Workplace) -> None:
        pytest.importorskip("deepspeed")
        on_host("node0")  # skips
        place.write({"bin/pdsh": PDSH, "hosts": "node0 slots=1\nnode1 slots=1\n"})
        (place.folder / "bin" / "pdsh").chmod(0o755)
        (line,) = (text for text in PAGE.split("`") if text.endswith(">> .deepspeed_env"))
        line = line.replace("\\|", "|").replace("patchcore environment", f"{' '.join(RUN[:-1])} environment")
        place.run("bash", "-c", line)
        launch = ("--hostfile", "hosts", "--no_ssh_check", "--master_addr", "127.0.0.1", "--master_port", "29520")
        path = f"{place.folder / 'bin'}:{place.environment['PATH']}"
        job = place.run(*PYTHON, "-m", "deepspeed.launcher.runner", *launch, "train.py", PATH=path)
        assert job.out.count("value 7.0") == 2, job.out + job.err


#: In the place of Slurm's commands: two nodes with names of their own, on this machine.
SCONTROL = "#!/bin/sh\nprintf '127.0.0.1\\n127.0.0.1\\n'\n"
SRUN = """#!/bin/bash
for node in node0 node1; do
    unshare --uts bash -c 'hostname "$0"; exec "$@"' "$node" "$@" &
done
wait
"""


def test_the_sbatch_file_of_the_page(place: Workplace) -> None:
    on_host("node0")  # skips
    script = block_of_page("Slurm", "sh").replace("RANKS=8", "RANKS=1").replace(":29500", ":29522")
    python = {"patchcore": "patchcore", "torchrun": "torch.distributed.run"}
    scripts = {name: f'#!/bin/sh\nexec "{sys.executable}" -m {module} "$@"\n' for name, module in python.items()}
    scripts.update(srun=SRUN, scontrol=SCONTROL)
    place.write({"job.sh": script, **{f"slurm/{name}": text for name, text in scripts.items()}})
    for name in scripts:
        (place.folder / "slurm" / name).chmod(0o755)
    path = f"{place.folder / 'slurm'}:{place.environment['PATH']}"
    slurm = {"SLURM_JOB_ID": "4711", "SLURM_JOB_NODELIST": "node[0-1]", "SLURM_JOB_NUM_NODES": "2"}
    # torchrun would look for node0 in the network: PET_LOCAL_ADDR is its --local-addr
    job = place.run("bash", "job.sh", PATH=path, PET_LOCAL_ADDR="127.0.0.1", **slurm)
    assert job.out.count("value 7.0") == 2, job.err
    reports = [json.loads(path.read_text()) for path in (place.folder / "reports").glob("report-*.json")]
    ranks = [report for report in reports if report["role"] == "rank"]
    assert sorted((r["run"], r["environment"]["rank"], r["environment"]["ranks"]) for r in ranks) == [
        ("4711", 0, 2),
        ("4711", 1, 2),
    ]
    assert {report["environment"]["host"] for report in ranks} == {"node0", "node1"}


def test_the_containers_of_the_manifest_of_the_page(place: Workplace) -> None:
    """They have the printed environment, and what the operator sets: the master calls itself localhost."""
    yaml = pytest.importorskip("yaml")
    printed = place.run(*RUN[:-1], "environment", "--as", "kubernetes", "--report-dir", "pods", report=False).out
    variables = "".join(f"{line}\n" for line in printed.splitlines() if not line.startswith("#"))
    shown = textwrap.indent('env:\n  - name: PATCHCORE_SESSION\n    value: "..."\n', " " * 14)
    manifest = block_of_page("Kubernetes", "yaml")
    assert shown in manifest
    job = yaml.safe_load(manifest.replace(shown, textwrap.indent(variables, " " * 14)))

    def start(replica: str) -> Job:
        (container,) = job["spec"]["pytorchReplicaSpecs"][replica]["template"]["spec"]["containers"]
        assert container["command"][0] == "python"
        own = {variable["name"]: variable["value"] for variable in container["env"]}
        meeting = {"MASTER_ADDR": "localhost" if replica == "Master" else "127.0.0.1", "MASTER_PORT": "29523"}
        operator = {**meeting, "WORLD_SIZE": "2", "RANK": str(int(replica == "Worker"))}
        return place.run(*PYTHON, *container["command"][1:], report=False, **own, **operator)

    with ThreadPoolExecutor(2) as pool:
        assert [job.out for job in pool.map(start, ("Master", "Worker"))] == ["value 7.0\n"] * 2
    assert main(["report", str(place.folder / "pods")]) == 0


def start_node(place: Workplace, node: int, folder: str, command: tuple[str, ...], program: str, **more: str) -> Job:
    """Start torchrun on one of two hosts, with a home and a temporary folder of its own; the port is in ``more``."""
    own = place.folder / folder / f"node{node}"
    for name in ("home", "tmp"):
        (own / name).mkdir(parents=True)
    environment: dict[str, Any] = {"HOME": str(own / "home"), "TMPDIR": str(own / "tmp"), **more}
    join = ("--nnodes", "2", "--master-addr", "127.0.0.1", "--master-port", environment.pop("PORT"))
    torchrun = (*PYTHON, "-m", "torch.distributed.run", *join, "--nproc-per-node", "2", "--node-rank", str(node))
    return place.run(*on_host(f"node{node}", *command, *torchrun, program), **environment)


@pytest.fixture(scope="module")
def nodes(place: Workplace) -> list[Job]:
    def start(node: int) -> Job:  # node 1 has another version of the plugin
        path = place.environment["PYTHONPATH"].replace("site-0", f"site-{node}")
        return start_node(place, node, "patched", (*RUN, "--"), "train.py", PORT="29517", PYTHONPATH=path)

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(start, range(2)))


class TestTwoHosts:
    """Two hosts by name, each with a home, a temporary folder and reports of its own. They have no common run id."""

    def test_a_plugin_of_another_version_is_named_with_the_hosts(self, nodes: list[Job]) -> None:
        start = "[rank 0]: ranks 2-3 on node1 differ from rank 0 on node0: patch acme_npu.seven"
        (line,) = lines_with(nodes[0].ours, start)
        assert line.endswith("plugin acme, acme-npu 1.3; on rank 0: contributed by plugin acme, acme-npu 1.2")

    def test_their_reports_are_one_run(self, nodes: list[Job], capsys: pytest.CaptureFixture[str]) -> None:
        assert [sum(report["role"] == "rank" for report in job.reports) for job in nodes] == [2, 2]
        code = main(["report", *(str(job.directory) for job in nodes)])
        out, err = capsys.readouterr()
        assert (code, err) == (1, "")  # the versions differ
        kinds = {line.split()[0] for line in out.partition("Findings")[2].splitlines()[2:] if line.strip()}
        assert kinds == {"difference"}, out
        assert len(lines_with(out.splitlines(), " rank ", "node1")) >= 2


WAITS = """
import time
import torch.distributed as dist

begun = time.monotonic()
dist.init_process_group("gloo")
seconds = time.monotonic() - begun
dist.barrier()
print(f"[{seconds}]", flush=True)
dist.destroy_process_group()
"""


def test_a_node_that_is_not_patched_is_said_and_does_not_make_the_others_wait(place: Workplace) -> None:
    place.write({"waits.py": WAITS})

    def start(node: int) -> Job:
        command = () if node else (*RUN, "--")
        return start_node(place, node, "unpatched", command, "waits.py", PORT="29518")

    with ThreadPoolExecutor(2) as pool:
        patched, unpatched = pool.map(start, range(2))
    (line,) = lines_with(patched.ours, "no patches to compare")
    assert line == (
        "patchcore [rank 0]: ranks 2-3 send no patches to compare (ranks 0-1 on node0 do); start every rank with "
        "patchcore run"
    )
    assert unpatched.ours == []
    assert max(seconds for (seconds,) in patched.said) < 30  # it was a minute
