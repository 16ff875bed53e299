"""What runs on a server and before a commit is what noxfile.py runs."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Callable

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "checks.yml"


def test_the_workflow_has_the_pythons_of_the_sessions(import_tool: Callable[[str], ModuleType]) -> None:
    pythons = import_tool("pythons")
    listed = re.findall(r"python: \[(.*)\]", WORKFLOW.read_text(encoding="utf-8"))
    assert [tuple(re.findall(r'"([^"]+)"', line)) for line in listed] == [pythons.CORE, pythons.LIBRARIES]


def test_the_workflow_runs_sessions_that_there_are() -> None:
    text = re.sub(r"\$\{\{.*?\}\}", "", WORKFLOW.read_text(encoding="utf-8"))
    names = {name.partition("-")[0] for line in re.findall(r"nox --sessions? (.+)", text) for name in line.split()}
    defined = re.findall(r"^def (\w+)\(session", (ROOT / "noxfile.py").read_text(encoding="utf-8"), re.MULTILINE)
    assert names
    assert names <= set(defined)


def test_ruff_before_a_commit_is_the_ruff_of_the_session() -> None:
    (pinned,) = re.findall(r"^ruff==(.+)$", (ROOT / "requirements" / "lint.txt").read_text(encoding="utf-8"), re.M)
    config = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r"ruff==([\d.]+)", config)) == {pinned}
