"""Runs the sessions that pages show, and compares what is printed with what the pages say."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from pages import blocks, split
from replay import difference

__all__ = ["ADOPTION", "HOME", "ROOT", "Shell", "inherited_path", "install_beside", "sessions", "walk"]

ROOT = Path(__file__).resolve().parents[2]
ADOPTION = ROOT / "examples" / "adoption"
MARK = "=== command"
#: What is shown is somebody else's home, and what no two runs have in common.
HOME = "/home/me"
PORT = "29500"


def sessions(page: Path) -> list[str]:
    return [block.text for block in blocks(page) if block.language == "console"]


class Shell:
    """Runs the sessions of a page in a folder.

    Args:
        folder: the current directory at the start of every session.
        home: what pages call ``/home/me``.
    """

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self.home = home
        ours = ("PATCHCORE_", "PYTHON", "RANK", "WORLD_SIZE")
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(ours)},
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
            "PYTHONUNBUFFERED": "1",  # as on a terminal
            "OMP_NUM_THREADS": "1",  # torchrun says something about it where it is not set
        }

    def run(self, commands: list[str]) -> list[str]:
        """Return what each command printed."""
        port = str(free_port())
        script = "".join(f"echo '{MARK}'\n{command.replace(PORT, port)}\n" for command in commands)
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=450,  # two cores that others use, too, take a minute for the longest
        )
        said = done.stdout.replace(str(self.home), HOME).replace(sys.prefix, f"{HOME}/venv").replace(port, PORT)
        return said.split(f"{MARK}\n")[1:]

    def check(self, session: str) -> None:
        """Run the commands of a session; each prints what is shown, where ``...`` stands for anything."""
        shown = split(session)
        said = self.run([command for command, _ in shown])
        assert len(said) == len(shown), said
        for (command, expected), actual in zip(shown, said):
            missing = difference(expected, actual)
            assert missing is None, f"$ {command}\nexpected:\n{expected}\nactual:\n{actual}\nnot found:\n{missing}"


def walk(shell: Shell, page: Path) -> None:
    """Write the files of a page and run its sessions, in the order of the page, all in one folder."""
    for block in blocks(page):
        if block.file:
            (shell.folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (shell.folder / block.file).write_text(block.text)
        elif block.language == "console":
            shell.check(block.text)


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("localhost", 0))
        return int(listening.getsockname()[1])


def install_beside(shell: Shell, *folders: Path) -> None:
    """Let pip leave this environment alone: what the sessions of a page install goes to a folder that is on the path.

    Only there its .pth file is not read, which is what puts the folder of an editable distribution on the path.

    Args:
        shell: gets the environment.
        folders: of editable distributions.
    """
    site = shell.home / "site-packages"
    shell.environment.update(
        PIP_TARGET=str(site),
        PIP_NO_INDEX="1",
        PIP_NO_BUILD_ISOLATION="0",
        PIP_DISABLE_PIP_VERSION_CHECK="1",
        PYTHONPATH=os.pathsep.join([str(site), *map(str, folders)]),
    )


def inherited_path() -> list[Path]:
    """What this process has on its path before all that is installed: a checkout that is tested in place."""
    return [Path(folder) for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
