"""Programs that are not started on a machine of the cluster: connected by Ray Client, or submitted as jobs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray_clusters import COMMON, Cluster, running, said, workplace

pytest.importorskip("ray")
pytest.importorskip("grpc", reason='needs "ray[client]"')
pytest.importorskip("aiohttp", reason='needs "ray[default]"')


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with a server for Ray Client and a dashboard, which takes jobs."""
    place = workplace(tmp_path_factory.mktemp("head"))
    with running(place, 6491, "--ray-client-server-port=9491", "--dashboard-port=8491") as address:
        yield Cluster(place, address)


# Ray waits 30 seconds for the server that it starts, which is too short on a busy machine. A user connects again.
CONNECT = """
for attempts_left in (2, 1, 0):
    try:
        ray.init("ray://127.0.0.1:9491")
        break
    except (RuntimeError, OSError) as error:
        if "Starting Ray client server failed" not in str(error) or not attempts_left:
            raise
"""
SAY = 'say("task", ray.get(task.remote()))\nsay("actor", ray.get(Actor.remote().see.remote()))'


def test_ray_client(head: Cluster) -> None:
    """Ray starts a server for each client in the environment of the run, which calls ``ray.init``, too."""
    job = head.run(f"{CONNECT}{SAY}", RAY_ADDRESS="")
    assert said(job) == {"task": "patched", "actor": "patched"}
    assert (job.report().code, "no findings" in job.report().text) == (0, True), job.report().text


def test_ray_job_submit(head: Cluster, tmp_path: Path) -> None:
    head.place.write({"program.py": f"{COMMON}ray.init()\n{SAY}"})
    folder = tmp_path / "reports"
    patchcore = [sys.executable, "-m", "patchcore", "environment", "-p", "deals", f"--report-dir={folder}"]
    environment = head.place.run(*patchcore, "--as", "ray", report=False).out.strip()
    submit = [sys.executable, "-m", "ray.scripts.scripts", "job", "submit", "--address=http://127.0.0.1:8491"]
    program = ["--", sys.executable, str(head.place.folder / "program.py")]
    job = head.place.run(*submit, f"--runtime-env-json={environment}", *program, report=False)
    assert said(job) == {"task": "patched", "actor": "patched"}, job.out + job.err
    roles = [json.loads(path.read_text())["role"] for path in folder.glob("report-*.json")]
    assert roles.count("worker") >= 2
