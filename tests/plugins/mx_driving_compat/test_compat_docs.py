"""The page about mx_driving.patcher says what happens."""

from __future__ import annotations

import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

from replay import same

from mx_driving_compat import patcher
from mx_driving_compat.finder import OLDER_MODULES

PAGE = (Path(__file__).parents[3] / "docs" / "mx-driving-patcher.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_example_prints_what_the_page_shows(tmp_path: Path) -> None:
    _, program = blocks("python")
    printed, summary = blocks("text")
    script = tmp_path / "example.py"
    script.write_text(program)
    environment = {**os.environ, "PATCHCORE_PLUGINS": ""}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=True)
    assert same(printed, done.stdout)
    assert same(f"...{summary}...", done.stderr)


def test_the_modules_that_the_page_names_are_there() -> None:
    offered = {info.name for info in pkgutil.iter_modules(patcher.__path__)}
    (sentence,) = re.findall(r"of its modules (.*?), as in mx-driving", PAGE, flags=re.DOTALL)
    assert set(re.findall(r"`(\w+)`", sentence)) == offered
    (sentence,) = re.findall(r"26\.2; (.*?), which the first versions had", PAGE, flags=re.DOTALL)
    assert set(re.findall(r"`(\w+)`", sentence)) == set(OLDER_MODULES)
