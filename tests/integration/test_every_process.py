"""``patchcore run`` with the real torch: every worker and every rank is patched, whatever ends them."""

from __future__ import annotations

import functools
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from distributions import write_distribution
from launching import PYTHON, RUN, TORCHRUN, Job, Workplace, lines_with, two_at_a_time

pytest.importorskip("torch")

PATCH = """
import patchcore as pc

@pc.patch("torch.nn.functional:relu")
def seven(input, inplace=False):
    return input * 0 + 7

@pc.hookimpl
def register_patches():
    return [seven]
"""
# Every process tells what it is, and what it gets from a function that it has bound by value.
LOOK = """
import json
import os
import torch
from torch.nn.functional import relu as r

def look(index=0):
    return {"pid": os.getpid(), "parent": os.getppid(), "value": r(torch.ones(1)).item()}

def say(kind, sights):
    os.write(1, (json.dumps({"kind": kind, "sights": sights}) + "\\n").encode())  # at once: ranks share the pipe

class Looks:
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return look()
"""
CHILDREN = """
import os
import subprocess
import sys
import torch.distributed as dist
import torch.multiprocessing
from torch.nn.functional import relu as r
from torch.utils.data import DataLoader
import looking
from looking import Looks, look, say

class MyLooks(Looks):
    def __getitem__(self, index):
        assert r is looking.r  # in a spawned worker this module is __mp_main__
        return look()

def rank(index, meeting):
    os.environ.update(RANK=str(index), WORLD_SIZE="2")
    dist.init_process_group("gloo", init_method=meeting, rank=index, world_size=2)
    sights = [None, None]
    dist.all_gather_object(sights, look())
    if index == 0:
        say("spawned ranks", sights)
    dist.destroy_process_group()

def load(method, **options):
    loader = DataLoader(MyLooks(), batch_size=None, num_workers=1, multiprocessing_context=method, **options)
    return [sight for epoch in range(2) for sight in loader]

def pool():
    pool = torch.multiprocessing.get_context("spawn").Pool(1)
    yield from pool.map(look, range(2))
    pool.close()
    pool.join()
"""
FIRST = """
from torch.nn.functional import relu as r
from children import *

if __name__ == "__main__":
    say("script", [look()])
    say("spawn pool", list(pool()))
    say("spawn loader", load("spawn", persistent_workers=True))
    subprocess.run([sys.executable, "-c", "from looking import *; say('subprocess', [look()])"], check=True)
"""
SECOND = """
from children import *

if __name__ == "__main__":
    say("fork loader", load("fork"))
    say("persistent fork loader", load("fork", persistent_workers=True))
    say("forkserver loader", load("forkserver", persistent_workers=True))
    torch.multiprocessing.spawn(rank, ("file://" + os.path.abspath("meeting"),), nprocs=2)
"""
TRAIN = """
import torch.distributed as dist
from torch.utils.data import DataLoader
from looking import Looks, look, say

if __name__ == "__main__":
    dist.init_process_group("gloo")
    sights = [None, None]
    dist.all_gather_object(sights, look())
    if dist.get_rank() == 0:
        say("ranks", sights)
        say("loader of rank 0", list(DataLoader(Looks(), batch_size=None, num_workers=1)))
    dist.destroy_process_group()
"""
PROGRAMS = {
    "looking.py": LOOK,
    "children.py": CHILDREN,
    "first.py": FIRST,
    "second.py": SECOND,
    "train.py": TRAIN,
    "alone.py": "from looking import *\nif __name__ == '__main__':\n    say('module', [look()])\n",
}


def of_plugin(folder: Path) -> Workplace:
    place = Workplace(folder, {**PROGRAMS, "site-0/acme_npu.py": PATCH}, plugins="acme")
    write_distribution(place.site, "acme-npu", "1.2", plugins={"acme": "acme_npu"})
    return place


# What patchcore says in a process that has a rank, it says in its name.
SUMMARY = re.compile(r"patchcore( \[rank 0\])?: 1 applied")


def sights(job: Job) -> dict[str, list[dict[str, Any]]]:
    """Return what the processes of a job have told, by kind."""
    told: dict[str, list[dict[str, Any]]] = {}
    for said in job.said:
        told.setdefault(said["kind"], []).extend(said["sights"])
    return told


def has_patched(job: Job, kind: str, number: int) -> None:
    """Assert that there were ``number`` processes of a kind, and that each ran the replacement and says so."""
    told = sights(job)[kind]
    assert {sight["value"] for sight in told} == {7.0}
    pids = {sight["pid"] for sight in told}
    assert len(pids) == number
    for pid in pids:
        (patch,) = job.by_pid[pid]["patches"]
        assert (patch["status"], patch["changes"][0]["slots"]) == ("applied", ["torch.nn.functional:relu"])


def is_accounted_for(job: Job, finding: str = "no findings") -> None:
    """Assert that each Python process has left one report, that they agree and are finished, and one summary.

    ``finding`` is in what ``patchcore report`` prints.
    """
    reports = job.by_pid
    assert reports.keys() == {job.pid, *(sight["pid"] for told in sights(job).values() for sight in told)}
    assert len({report["digest"] for report in reports.values()}) == 1
    assert len({report["run"] for report in reports.values()}) == 1
    assert all(report["finished"] for report in reports.values())
    code, text = job.report()
    assert code == (finding != "no findings"), text
    assert finding in text
    (line,) = job.ours
    assert SUMMARY.fullmatch(line)


COMMANDS = {
    "script": ("first.py",),
    "-m": ("-m", "alone"),
    "torchrun": ("--", "torchrun", *TORCHRUN[3:], "train.py"),
}
# Each kind of process: the command that starts it, what it calls itself, and how many there are.
KINDS = {
    "script": ("script", "script", 1),
    "spawn pool": ("script", "spawn pool", 1),
    "DataLoader spawn worker": ("script", "spawn loader", 1),
    "subprocess": ("script", "subprocess", 1),
    "-m": ("-m", "module", 1),
    "torchrun": ("torchrun", "ranks", 2),
    "torchrun, DataLoader worker": ("torchrun", "loader of rank 0", 1),
}


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    """Run the commands with the patch of a plugin; tests/builtin/run has the other sources of patches."""
    place = of_plugin(tmp_path_factory.mktemp("matrix"))
    return two_at_a_time({name: functools.partial(place.run, *RUN, *command) for name, command in COMMANDS.items()})


class TestMatrix:
    @pytest.mark.parametrize("kind", KINDS)
    def test_is_patched(self, matrix: dict[str, Job], kind: str) -> None:
        command, name, number = KINDS[kind]
        has_patched(matrix[command], name, number)

    @pytest.mark.parametrize("command", COMMANDS)
    def test_one_report_for_each_process(self, matrix: dict[str, Job], command: str) -> None:
        is_accounted_for(matrix[command])


@pytest.fixture(scope="module")
def children(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Run what starts the other kinds of child processes."""
    return of_plugin(tmp_path_factory.mktemp("children")).run(*RUN, "second.py")


class TestOtherChildren:
    @pytest.mark.parametrize(
        ("kind", "number"),
        [("fork loader", 2), ("persistent fork loader", 1), ("forkserver loader", 1), ("spawned ranks", 2)],
    )
    def test_is_patched(self, children: Job, kind: str, number: int) -> None:
        """A loader starts a worker for each epoch, unless it is persistent."""
        has_patched(children, kind, number)

    def test_one_report_for_each_process(self, children: Job) -> None:
        is_accounted_for(children)

    def test_ranks_that_were_set_by_the_program(self, children: Job) -> None:
        pids = [sight["pid"] for sight in sights(children)["spawned ranks"]]
        assert [children.by_pid[pid]["environment"]["rank"] for pid in pids] == [0, 1]


ACME = """
import os
import patchcore as pc

@pc.patch("torch.nn.functional:relu", options={"eps": os.environ.get("EPS", "1e-5")})
def seven(input, inplace=False):
    return input * 0 + 7

@pc.patch("shop.prices:price")
def double(item):
    return 20

@pc.hookimpl
def register_patches():
    return [seven, double]
"""
EXTRA = """
import patchcore as pc

@pc.patch("torch.nn.functional:silu")
def eight(input, inplace=False):
    return input * 0 + 8

@pc.hookimpl
def register_patches():
    return [eight]
"""
# A rank that is not patched is waited for; not for a minute here.
IMPATIENT = """
from patchcore_torch.ranks import agreement
agreement.PATIENCE = 1.0
"""
# Runs a command; $ODD is executed before it for rank 1.
RANK_SCRIPT = """
[ "$RANK" = 1 ] && eval "$ODD"
exec "$@"
"""
MEET = """
import os
import sys
import torch
import torch.distributed as dist
from torch.distributed import init_process_group
from looking import look, say
import shop.prices

rank = int(os.environ["RANK"])
again = "file://" + os.path.abspath("again-" + os.environ["TORCHELASTIC_RUN_ID"])
for meeting in sys.argv[1:] or ["env://", again]:
    init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
    total = torch.ones(1) * (rank + 1)
    dist.all_reduce(total)
    store = dist.distributed_c10d._get_default_store()
    store.set(f"done/{rank}", "")
    store.wait([f"done/{1 - rank}"])  # gloo may reset the connection of a rank that is still reading
    dist.destroy_process_group()
say(rank, [{**look(), "total": total.item()}])
"""
# One process that plays rank 1 of 4, to try out a configuration: there is no other.
DRY_RUN = """
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

dist.init_process_group("fake", store=FakeStore(), rank=1, world_size=4)
print(dist.get_world_size())
"""


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    """What every rank has is in site-0, and what an odd rank has instead in site-1."""
    files = {
        "looking.py": LOOK,
        "meet.py": MEET,
        "dry_run.py": DRY_RUN,
        "rank.sh": RANK_SCRIPT,
        "impatient.py": IMPATIENT,
        "site-0/acme_npu.py": ACME,
        "site-1/acme_npu.py": ACME,
        "site-0/extra_npu.py": EXTRA,
        "site-0/shop/prices.py": "def price(item):\n    return 10\n",
        "site-1/shop/prices.py": "def price(item):\n    return 11\n",
    }
    place = Workplace(tmp_path_factory.mktemp("uneven"), files, plugins=None)
    write_distribution(place.site, "acme-npu", "1.2", plugins={"acme": "acme_npu"})
    write_distribution(place.site, "extra-npu", "1.0", plugins={"extra": "extra_npu"})
    write_distribution(place.folder / "site-1", "acme-npu", "1.3", plugins={"acme": "acme_npu"})
    return place


MEETING = ("--", *TORCHRUN, "--no-python", "bash", "rank.sh", *PYTHON, "meet.py")
OTHER_SITE = 'export PYTHONPATH="${PYTHONPATH/site-0/site-1}" EPS=1e-3'


ALONE = "unset PATCHCORE_SESSION"


@pytest.fixture(scope="module")
def ranks(uneven: Workplace) -> dict[str, Job]:
    """Jobs of two ranks, one of which is odd."""

    def meet(*options: str, odd: str, code: int = 0, arguments: tuple[str, ...] = ()) -> Any:
        command = (*RUN, *options, *MEETING, *arguments)
        return functools.partial(uneven.run, *command, code=code, ODD=odd)

    meeting = f"file://{uneven.folder}/meeting"
    return two_at_a_time(
        {
            "different": meet(odd=OTHER_SITE),
            "strict, different": meet("--strict", odd="export EPS=1e-3", code=1, arguments=(meeting,)),
            "rank 1 unpatched": meet("-p", "impatient", odd=ALONE),
            "dry run": functools.partial(uneven.run, *RUN, "--strict", "dry_run.py", code=None),
        }
    )


# What rank 1 has differently: the subject, what it has, and what rank 0 has.
DIFFERENCES = {
    "plugin missing": ("patch extra_npu.eight", "no plugin contributes it", "apply"),
    "plugin of another version": ("patch acme_npu.double, acme_npu.seven", "acme-npu 1.3", "acme-npu 1.2"),
    "option": ("patch acme_npu.seven", "options eps='1e-3'", "options eps='1e-5'"),
    "target file": ("file of shop.prices, of patch acme_npu.double", "", ""),
}


class TestRanks:
    @pytest.mark.parametrize("difference", DIFFERENCES)
    def test_a_difference_is_said_once_by_rank_0(self, ranks: dict[str, Job], difference: str) -> None:
        """Once, although the group is initialised, by a function that was bound by value, twice."""
        subject, odd, usual = DIFFERENCES[difference]
        said = lines_with(ranks["different"].ours, f"[rank 0]: rank 1 differs from rank 0: {subject}: ", odd)
        (line,) = lines_with(said, "; on rank 0: ", usual)
        assert line.index(odd) <= line.index("; on rank 0: ") <= line.rindex(usual)

    @pytest.mark.parametrize("difference", DIFFERENCES)
    def test_a_difference_is_a_finding(self, ranks: dict[str, Job], difference: str) -> None:
        code, text = ranks["different"].report()
        assert code == 1
        assert lines_with(text.splitlines(), "difference", "rank 1, ", *DIFFERENCES[difference])

    def test_a_rank_says_itself_what_it_lacks(self, ranks: dict[str, Job]) -> None:
        said = lines_with(ranks["different"].ours, "patchcore [rank 1]: plugin ")
        assert len(lines_with(said, "plugin extra (extra-npu 1.0) is not installed for")) == 1
        assert len(lines_with(said, "plugin acme (acme-npu 1.2) of patchcore run is plugin acme, acme-npu 1.3")) == 1

    @pytest.mark.parametrize(("name", "odd"), [("different", 7.0), ("rank 1 unpatched", 1.0)])
    def test_training_goes_on(self, ranks: dict[str, Job], name: str, odd: float) -> None:
        told = sights(ranks[name])
        assert [told[rank][0]["total"] for rank in (0, 1)] == [3.0, 3.0]
        assert [told[rank][0]["value"] for rank in (0, 1)] == [7.0, odd]

    def test_strict_ends_the_job(self, ranks: dict[str, Job]) -> None:
        """The ranks meet over a file here, which needs no network."""
        job = ranks["strict, different"]
        message = "rank 1 differs from rank 0: patch acme_npu.seven: options eps='1e-3'; on rank 0: options eps='1e-5'"
        for rank in (0, 1):
            (line,) = (line for line in job.err.splitlines() if line.startswith(f"[rank{rank}]: "))  # no traceback
            assert line.endswith(message)
        assert not job.said
        code, text = job.report()
        assert code == 1
        assert lines_with(text.splitlines(), "difference", "rank 1, ", "patch acme_npu.seven", "eps='1e-3'")

    def test_rank_0_names_a_rank_that_is_not_patched(self, ranks: dict[str, Job]) -> None:
        (line,) = lines_with(ranks["rank 1 unpatched"].ours, "[rank 0]: rank 1 sends no patches to compare")
        assert line.endswith("start every rank with patchcore run")

    def test_a_rank_that_is_not_patched_is_a_finding(self, ranks: dict[str, Job]) -> None:
        code, text = ranks["rank 1 unpatched"].report()
        assert code == 1
        assert lines_with(text.splitlines(), "rank 1")

    def test_a_dry_run_with_no_other_ranks(self, ranks: dict[str, Job]) -> None:
        job = ranks["dry run"]
        assert job.code == 0
        assert job.out == "4\n"


WAIT = """
import os
import signal
import sys
import time
import torch.distributed as dist
from looking import look, say

dist.init_process_group("gloo")
say("ranks", [look()])
if sys.argv[1:] and os.environ["RANK"] == sys.argv[1]:
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(60)
"""
BREAK = """
import os
import re
import signal
import sys
import traceback
from torch.utils.data import DataLoader
from looking import Looks, say

class Broken(Looks):
    def __getitem__(self, index):
        raise ValueError(f"sample {index} is broken")

class Deadly(Looks):
    def __getitem__(self, index):
        os.kill(os.getpid(), signal.SIGKILL)

def load(dataset, method):
    return next(iter(DataLoader(dataset, batch_size=None, num_workers=1, multiprocessing_context=method)))

if __name__ == "__main__":
    # the first batch imports parts of torch, which logs the error of a worker that is killed in the middle of that
    next(iter(DataLoader([0])))
    try:
        load(Deadly(), "fork")
    except RuntimeError as error:
        (pid,) = re.findall("worker .pid.s. ([0-9]+). exited unexpectedly", str(error))
        say("killed", [{"pid": int(pid)}])
    try:
        load(Broken(), "fork")
    except ValueError:
        traceback.print_exc()
    load(Broken(), "spawn")
"""


@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    place = of_plugin(tmp_path_factory.mktemp("fragile"))
    place.write({"wait.py": WAIT, "break.py": BREAK})
    return place


@pytest.fixture(scope="module")
def broken(fragile: Workplace) -> dict[str, Job]:
    """Jobs that something happens to, some of them also without ``patchcore run``."""

    def start(*command: str, **options: Any) -> Any:
        return functools.partial(fragile.run, *command, **options)

    return two_at_a_time(
        {
            "killed": start(*RUN, "--", *TORCHRUN, "wait.py", "1", code=1),
            "killed without run": start(*TORCHRUN, "wait.py", "1", code=1),
            "interrupted": functools.partial(interrupt, fragile, *RUN, *TORCHRUN[1:], "wait.py", code=1),
            "worker": start(*RUN, "break.py", code=1),
            "worker without run": start(*PYTHON, "break.py", code=1),
        }
    )


def interrupt(place: Workplace, *command: str, code: int) -> Job:
    """Start a job of two ranks and press Ctrl-C once both have met."""
    with place.start(*command) as (process, directory):
        assert process.stdout is not None
        out = process.stdout.readline() + process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)
        rest, err = process.communicate(timeout=900)
    assert process.returncode == code, err
    return Job(process.pid, process.returncode, out + rest, err, directory)


def failure(job: Job) -> str:
    """Return what torchrun says about the ranks of a job that failed, without what is different each time."""
    text = job.err[job.err.index("ChildFailedError") :]
    return re.sub("[=-]{3,}", "---", re.sub("[0-9-]+_[0-9:]+|pid: [0-9]+|PID [0-9]+", "N", text))


class TestEnds:
    def test_a_rank_is_killed(self, broken: dict[str, Job]) -> None:
        """The job ends as torchrun has it, and the rank leaves the report of when it was last heard of."""
        job = broken["killed"]
        assert failure(job) == failure(broken["killed without run"])
        (report,) = (report for report in job.reports if report["environment"]["rank"] == 1)
        assert (report["finished"], report["patches"][0]["status"]) == (False, "applied")
        code, text = job.report()
        assert code == 1
        assert lines_with(text.splitlines(), "unfinished", f"rank 1, rank {report['environment']['pid']} on ")

    def test_ctrl_c(self, broken: dict[str, Job]) -> None:
        """torchrun was started as a module here; it sends the ranks, which are in sessions of their own, the signal."""
        job = broken["interrupted"]
        for rank in (0, 1):
            lines = [line for line in job.err.splitlines() if line.startswith(f"[rank{rank}]: ")]
            assert lines[-1] == f"[rank{rank}]: KeyboardInterrupt"
            assert not lines_with(lines, "/patchcore")
        has_patched(job, "ranks", 2)
        is_accounted_for(job, f"ended with SignalException: Process {job.pid} got signal: 2")
        assert "KeyboardInterrupt" not in job.report().text

    def test_an_error_in_a_worker_looks_as_ever(self, broken: dict[str, Job]) -> None:
        job = broken["worker"]
        *lines, summary = job.err.splitlines()
        assert lines == broken["worker without run"].err.splitlines()
        assert (
            lines.count("ValueError: sample 0 is broken") == 2
        )  # of a worker that was forked and one that was spawned
        assert summary == "patchcore: 1 applied"

    def test_a_worker_is_killed(self, broken: dict[str, Job]) -> None:
        """It has left a report, and it is the program's affair: it may have meant to."""
        job = broken["worker"]
        ((sight,),) = sights(job).values()
        report = job.by_pid[sight["pid"]]
        assert (report["role"], report["finished"]) == ("worker", False)
        assert report["patches"][0]["status"] == "applied"
        assert "ended with ValueError: Caught ValueError in DataLoader worker process 0." in job.report().text
