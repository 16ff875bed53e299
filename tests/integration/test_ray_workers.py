"""Programs on a cluster of the real Ray: every worker is patched, and failures reach the user."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from launching import RUN, Job, lines_with
from ray_clusters import COMMON, OBJECT_STORE, Cluster, running, said, started, workplace

pytest.importorskip("ray")

EVERY_KIND = """
from ray.runtime_env import RuntimeEnv

def own_hook():
    os.environ["OWN_HOOK"] = "called"

ray.init(
    namespace="shop",
    runtime_env=RuntimeEnv(env_vars={"MINE": "1"}, worker_process_setup_hook=own_hook),
)
say("task", ray.get(task.remote()))
say("max_calls", ray.get([ray.remote(max_calls=1)(see).remote() for _ in range(2)]))
actor = Actor.options(name="alice", max_restarts=1).remote()
say("actor", ray.get(actor.see.remote()))
say("nested", ray.get(actor.nested.remote()))
say("variables", ray.get([actor.variable.remote(name) for name in ("MINE", "OWN_HOOK")]))
try:
    ray.get(actor.end.remote())
except ray.exceptions.RayActorError:
    pass
for _ in range(50):  # until it has restarted
    try:
        say("restarted", ray.get(actor.see.remote()))
        break
    except ray.exceptions.RayActorError:
        import time; time.sleep(0.2)
detached = Actor.options(name="bob", lifetime="detached", runtime_env={"env_vars": {"OTHER": "2"}}).remote()
say("detached", ray.get(detached.see.remote()))
say("merged", ray.get(detached.variable.remote("MINE")))
ray.kill(detached)
group = ray.util.placement_group([{"CPU": 1}])
ray.get(group.ready())
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy as Strategy
say("placement group", ray.get(task.options(scheduling_strategy=Strategy(group)).remote()))
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that was there before the program."""
    place = workplace(tmp_path_factory.mktemp("cluster"))
    with running(place, 6391) as address:
        yield Cluster(place, address)


@pytest.fixture(scope="module")
def job(cluster: Cluster) -> Job:
    return cluster.run(EVERY_KIND)


KINDS = ("task", "actor", "nested", "restarted", "detached", "placement group")


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_of_a_cluster_that_was_there_is_patched(job: Job, kind: str) -> None:
    assert said(job)[kind] == "patched", job.err


def test_workers_of_one_call_each_are_patched(job: Job) -> None:
    assert said(job)["max_calls"] == ["patched", "patched"]


def test_what_the_program_has_set_is_kept(job: Job) -> None:
    """Its variables, its setup hook, and both where an actor adds variables of its own."""
    assert said(job)["variables"] == ["1", "called"]
    assert said(job)["merged"] == "1"


def test_workers_print_no_summary_and_are_no_findings(job: Job) -> None:
    """Ray kills most of them."""
    (summary,) = (line for line in job.ours if "applied" in line)
    assert summary in ("patchcore: 1 applied, 1 pending", "patchcore: 2 applied"), (
        job.err
    )  # ray[default] imports colorsys
    code, text = job.report()
    assert (code, "no findings" in text) == (0, True), text


def test_the_report_has_workers_with_their_nodes_actors_and_tasks_and_no_daemons(job: Job) -> None:
    roles = [report["role"] for report in job.reports]
    assert roles.count("main") == 1
    assert set(roles) == {"main", "worker"}
    assert {report["job"].get("engine", "") for report in job.reports if report["role"] == "worker"} == {"ray"}
    facts = [row for r in job.reports for s in r["sections"] if s["title"] == "Ray" for row in s["data"]]
    assert "alice" in {row["actor"] for row in facts}
    assert len({row["node"] for row in facts}) == 1


class TestOtherWaysIn:
    def test_a_job_config_with_a_runtime_environment(self, cluster: Cluster) -> None:
        """A keyword beside it would be lost."""
        job = cluster.run(
            """
ray.init(job_config=ray.job_config.JobConfig(runtime_env={"env_vars": {"MINE": "1"}}))
actor = Actor.remote()
say("actor", ray.get([actor.see.remote(), actor.variable.remote("MINE")]))
"""
        )
        assert said(job) == {"actor": ["patched", "1"]}

    def test_from_ray_import_init_and_a_call_without_init(self, cluster: Cluster) -> None:
        first = 'say("task", ray.get(task.remote()))\nray.shutdown()\n'
        job = cluster.run(f'{first}from ray import init\ninit()\nsay("again", ray.get(task.remote()))')
        assert said(job) == {"task": "patched", "again": "patched"}

    def test_a_setup_hook_given_by_name(self, cluster: Cluster) -> None:
        cluster.place.write(
            {"site-0/own_hooks.py": "import os\n\ndef begin():\n    os.environ['OWN_HOOK'] = 'called'\n"}
        )
        job = cluster.run("""
ray.init(runtime_env={"worker_process_setup_hook": "own_hooks.begin"})
actor = Actor.remote()
say("actor", ray.get([actor.see.remote(), actor.variable.remote("OWN_HOOK")]))
""")
        assert said(job) == {"actor": ["patched", "called"]}

    def test_the_program_may_leave_workers_unpatched(self, cluster: Cluster) -> None:
        job = cluster.run("""
import colorsys
ray.init(runtime_env={"env_vars": {"PATCHCORE_SESSION": ""}})
say("task", ray.get(task.remote()) == "patched")
""")
        assert said(job) == {"task": False}

    def test_a_program_that_is_not_in_a_run_is_as_without(self, cluster: Cluster) -> None:
        cluster.place.write({"program.py": COMMON + 'ray.init()\nsay("task", ray.get(task.remote()) == "patched")'})
        assert said(cluster.place.run(sys.executable, "program.py", RAY_ADDRESS=cluster.address)) == {"task": False}


class TestStrict:
    """A worker never dies at its start; what failed is raised in the task or actor."""

    PROGRAM = """
ray.init()
for name, start in (("task", task.options(max_retries=0)), ("actor", Actor)):
    try:
        handle = start.remote()
        say(name, ray.get(handle if name == "task" else handle.see.remote(), timeout=60))
    except Exception as error:
        say(name, str(error))
"""

    def test_a_patch_that_fails(self, cluster: Cluster) -> None:
        cluster.place.write({"wrong.py": DEALS_WRONG})
        job = cluster.run(self.PROGRAM, "-p", "wrong", "--strict")
        for text in said(job).values():
            assert "patch wrong.wrong (plugin wrong) failed: " in text

    def test_a_module_that_the_node_does_not_have(self, cluster: Cluster) -> None:
        """A worker dies, as on a node where the folder of the program is missing: with the reason, and at once."""
        gone = cluster.place.folder / "gone"
        gone.mkdir(exist_ok=True)
        (gone / "gone_patches.py").write_text(GONE)
        remove = "import shutil; shutil.rmtree('gone')\n"
        path = f"{gone}:{cluster.place.environment['PYTHONPATH']}"
        job = cluster.run(remove + self.PROGRAM, "-p", "gone_patches", "--strict", PYTHONPATH=path)
        assert "gone_patches" in said(job)["actor"]

    def test_patches_that_match_are_in_force(self, cluster: Cluster) -> None:
        assert said(cluster.run(self.PROGRAM, "--strict")) == {"task": "patched", "actor": "patched"}


class TestStrictWithoutRayPatches:
    """A plugin for Ray is not installed: a worker does not die all the same, and its failure is in the task."""

    PROGRAM = f"""
import shutil
shutil.rmtree("gone", ignore_errors=True)
ray.init("local", num_cpus=1, object_store_memory={OBJECT_STORE}, include_dashboard=False)
try:
    say("task", ray.get(task.options(max_retries=0).remote(), timeout=60))
except Exception as error:
    say("task", str(error))
"""

    @pytest.mark.parametrize(("name", "reason"), [("wrong", "colorsys has no no_such"), ("gone_patches", "No module")])
    def test_the_reason_is_in_the_task(self, tmp_path: Path, name: str, reason: str) -> None:
        place = workplace(tmp_path)
        gone = tmp_path / "gone"
        place.write({"program.py": COMMON + self.PROGRAM, "wrong.py": DEALS_WRONG, "gone/gone_patches.py": GONE})
        path = f"{gone}:{place.environment['PYTHONPATH']}"
        job = place.run(*RUN, "-p", name, "--strict", "program.py", PATCHCORE_PLUGINS="", PYTHONPATH=path, code=None)
        assert reason in said(job)["task"], job.err


GONE = """
import patchcore as pc

@pc.patch("colorsys:yiq_to_rgb")
def yiq(*arguments): ...

@pc.hookimpl
def register_patches():
    return [yiq]
"""
DEALS_WRONG = """
import patchcore as pc

@pc.patch("colorsys:no_such_function")
def wrong(*arguments): ...

@pc.hookimpl
def register_patches():
    return [wrong]
"""


class TestGroups:
    """Two groups of actors that each count their ranks from 0, with a process group of torch inside, as verl's are."""

    PROGRAM = """
import socket

@ray.remote(num_cpus=0)
class Rank:
    def join(self):
        import colorsys, torch, torch.distributed as dist
        dist.init_process_group("gloo")
        total = torch.ones(1)
        dist.all_reduce(total)
        return [total.item(), colorsys.rgb_to_hsv(0, 0, 0), colorsys.hsv_to_rgb(0, 0, 0) == "critic"]

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])

ray.init()
for name in ("actor", "critic"):
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "WORLD_SIZE": "2", "RANK_GROUP": name}
    ranks = [Rank.options(runtime_env={"env_vars": {**place, "RANK": str(r)}}).remote() for r in range(2)]
    say(name, ray.get([rank.join.remote() for rank in ranks]))
"""

    def test_each_group_has_its_patches_and_is_told_apart(self, cluster: Cluster) -> None:
        pytest.importorskip("torch")
        job = cluster.run(self.PROGRAM, PATCHCORE_PLUGINS="ray")
        assert said(job) == {"actor": [[2.0, "patched", False]] * 2, "critic": [[2.0, "patched", True]] * 2}
        ranks = [report for report in job.reports if report["role"] == "rank"]
        assert len(ranks) == 4
        assert len({rank["job"]["group"] for rank in ranks}) == 2
        code, text = job.report()
        assert code == 1  # the groups differ, which may be meant
        (line,) = [line for line in text.splitlines() if line.lstrip().startswith("difference")]
        assert "patch deals.only_here" in line
        assert not [line for line in job.ours if "differs from rank 0" in line]


class TestWithoutACluster:
    """``ray.init`` starts one, with two nodes at most."""

    def test_it_is_patched_and_its_daemons_are_not(self, tmp_path: Path) -> None:
        place = workplace(tmp_path)
        start = f"ray.init('local', num_cpus=1, object_store_memory={OBJECT_STORE}, include_dashboard=False)\n"
        place.write(
            {
                "program.py": COMMON + start + 'say("task", ray.get(task.remote()))\nray.shutdown()',
                "wrong.py": DEALS_WRONG,
            }
        )
        job = place.run(*RUN, "-p", "deals", "program.py")
        assert said(job) == {"task": "patched"}
        programs = {Path(report["environment"]["program"].split()[0]).name for report in job.reports}
        assert programs <= {"program.py", "default_worker.py"}
        assert sum(report["environment"]["program"] == "program.py" for report in job.reports) == 1

    def test_two_nodes(self, tmp_path: Path) -> None:
        place = workplace(tmp_path)
        start = f"""
from ray.cluster_utils import Cluster
cluster = Cluster()
for _ in range(2):
    cluster.add_node(num_cpus=1, object_store_memory={OBJECT_STORE}, include_dashboard=False)
ray.init(address=cluster.address)
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as Node
nodes = [node["NodeID"] for node in ray.nodes()]
say("nodes", ray.get([task.options(scheduling_strategy=Node(node, soft=False)).remote() for node in nodes]))
ray.shutdown()
cluster.shutdown()
"""
        place.write({"program.py": COMMON + start})
        job = place.run(*RUN, "-p", "deals", "program.py")
        assert said(job) == {"nodes": ["patched", "patched"]}
        facts = [row for r in job.reports for s in r["sections"] if s["title"] == "Ray" for row in s["data"]]
        assert len({row["node"] for row in facts}) == 2


def test_doctor_shows_a_worker(tmp_path: Path) -> None:
    """Of the children of torch nothing is needed here: they take a minute."""
    doctor = (*RUN[:-1], "doctor", "--workers", "-p", "deals")
    job = workplace(tmp_path).run(*doctor, report=False, PATCHCORE_PLUGINS="ray,no:patchcore.torch", code=None)
    (line,) = (line for line in job.out.splitlines() if line.lstrip().startswith("Ray worker"))
    assert line.split()[:3] == ["Ray", "worker", "patched"], job.out


@pytest.fixture(scope="module")
def bare(cluster: Cluster) -> Iterator[Path]:
    """A second node. Its Python has Ray by folders whose .pth files are not read, and those lead to patchcore."""
    folder = cluster.place.folder / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "of_the_tests.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    python = str(folder / "bin" / "python")
    environment = {**cluster.place.environment, "PYTHONPATH": ""}
    found = subprocess.run(
        [python, "-c", "import patchcore"], env=environment, cwd=folder, capture_output=True, check=False
    )
    assert b"No module named 'patchcore'" in found.stderr
    start = [python, "-m", "ray.scripts.scripts", "start", f"--address={cluster.address}", "--block", "--num-cpus=1"]
    start += [f"--object-store-memory={OBJECT_STORE}", '--resources={"bare": 1}']
    with started(start, environment, folder):
        yield Path(python)


class TestANodeWithoutPatchcore:
    """It is named with the reason when the first worker of the program starts there."""

    PROGRAM = """
ray.init()
import time
here = Actor.options(num_cpus=0, resources={"bare": 1})
try:
    say("bare", ray.get(here.remote().see.remote(), timeout=60) == "patched")
except Exception as error:
    say("bare", str(error))
time.sleep(3)  # Ray hands on what workers print now and then
"""

    @pytest.mark.parametrize("options", [(), ("--strict",)])
    def test_is_named_and_why(self, cluster: Cluster, bare: Path, options: tuple[str, ...]) -> None:
        job = cluster.run(self.PROGRAM, *options)
        reason = (
            f" are not patched: {bare}: No module named 'patchcore_startup'; install patchcore and the plugins of the"
        )
        assert reason in (said(job)["bare"] if options else job.err)
        assert options or said(job)["bare"] is False

    def test_doctor_shows_a_worker_of_each_node_of_the_cluster(self, cluster: Cluster, bare: Path) -> None:
        given = {"RAY_ADDRESS": cluster.address, "PATCHCORE_PLUGINS": "ray,no:patchcore.torch"}
        job = cluster.place.run(*RUN[:-1], "doctor", "--workers", "-p", "deals", report=False, code=1, **given)
        rows = [" ".join(line.split()) for line in job.out.splitlines() if line.lstrip().startswith("Ray worker,")]
        assert len(rows) == 2, job.out
        (not_patched,) = lines_with(rows, " not patched ", f"{bare}: No module named 'patchcore'; install patchcore")
        (patched,) = (row for row in rows if row != not_patched)
        assert " patched " in patched
