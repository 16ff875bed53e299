"""The README's example is what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from replay import same

README = Path(__file__).parents[2] / "README.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.fixture
def example(tmp_path: Path) -> Path:
    module, script, usage = blocks("python")
    (tmp_path / "sorted_json.py").write_text(module)
    (tmp_path / "train.py").write_text(script)
    (tmp_path / "usage.py").write_text(usage)
    return tmp_path


def run(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "PATCHCORE_PLUGINS": ""}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, check=True, text=True, capture_output=True)
    return done.stdout + done.stderr


def test_console_session_prints_what_the_readme_shows(example: Path) -> None:
    (console,) = blocks("console")
    shown = re.split(r"^\$ (.*)\n", console, flags=re.MULTILINE)[1:]
    for command, output in zip(shown[::2], shown[1::2]):
        program, *arguments = command.split()
        module = ["-m", "patchcore"] if program == "patchcore" else []
        assert same(output, run(example, *module, *arguments))


def test_usage_from_python_prints_what_the_readme_shows(example: Path) -> None:
    (output,) = blocks("text")
    assert same(output, run(example, "usage.py"))


def test_first_screen_has_exactly_the_two_commands() -> None:
    first_screen = "\n".join(README.read_text(encoding="utf-8").splitlines()[:20])
    commands = [line.partition("#")[0].strip() for line in blocks("sh")[0].splitlines()]
    assert commands == [f"python3 -m pip install nox && python3 -m nox -s {name}" for name in ("demo", "tests")]
    assert all(command in first_screen for command in commands)
