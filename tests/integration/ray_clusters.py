"""Real clusters of Ray on this machine, each with a home and a folder of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from launching import RUN, Job, Workplace

#: Bytes; the least that Ray takes is 75 MiB.
OBJECT_STORE = 80 * 1024 * 1024

DEALS = """
import os
import patchcore as pc

@pc.patch("colorsys:rgb_to_hsv")
def hsv(*arguments):
    return "patched"

@pc.patch("colorsys:hsv_to_rgb")
def only_here(*arguments):
    return os.environ.get("RANK_GROUP", "")

@pc.hookimpl
def register_patches():
    return [hsv] if os.environ.get("RANK_GROUP") != "critic" else [hsv, only_here]
"""
#: What the programs have in common.
COMMON = """
import json, os, sys
import ray

def see():
    import colorsys
    return colorsys.rgb_to_hsv(0, 0, 0)

def say(kind, value):
    print(json.dumps({"kind": kind, "value": value}), flush=True)

task = ray.remote(see)

@ray.remote
class Actor:
    def see(self):
        return see()

    def nested(self):
        return ray.get(task.remote())

    def variable(self, name):
        return os.environ.get(name)

    def end(self):
        os._exit(1)
"""


class Cluster(NamedTuple):
    """A cluster that runs.

    Args:
        place: a folder for programs.
        address: for ``ray.init``.
    """

    place: Workplace
    address: str

    def run(self, program: str, *options: str, code: int | None = 0, **environment: str) -> Job:
        """Run a program as ``patchcore run`` does, connected to the cluster."""
        self.place.write({"program.py": COMMON + program})
        given = {"RAY_ADDRESS": self.address, **environment}
        return self.place.run(*RUN, "-p", "deals", *options, "program.py", code=code, **given)


def workplace(folder: Path) -> Workplace:
    """Return a folder with patches for programs with Ray; its installed plugins are those for Ray and torch."""
    (folder / "home").mkdir()
    place = Workplace(folder, {"deals.py": DEALS}, plugins="ray")
    # a token for the cluster is written to the home; Ray's sockets have long paths
    place.environment.update(HOME=str(folder / "home"), RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0")
    return place


@contextlib.contextmanager
def running(place: Workplace, port: int, *options: str) -> Iterator[str]:
    """Start a cluster that knows nothing of a run, and yield its address; by default it has no dashboard."""
    ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--num-cpus=2"]
    own = [f"--port={port}", f"--object-store-memory={OBJECT_STORE}", *(options or ["--include-dashboard=false"])]
    with started([*ray, *own], place.environment, place.folder):
        yield f"127.0.0.1:{port}"


@contextlib.contextmanager
def started(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> Iterator[None]:
    """Run ``ray start --block`` until the end of the block.

    Args:
        command: the command line.
        environment: its variables.
        folder: its current directory.
    """
    with subprocess.Popen(
        command,
        env=dict(environment),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if "Ray runtime started" in line:
                    break
            yield
        finally:
            process.terminate()  # --block ends what it has started
            try:
                process.wait(30)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


def said(job: Job) -> Mapping[str, Any]:
    """Return what a program has printed, by kind."""
    return {line["kind"]: line["value"] for line in job.said}
