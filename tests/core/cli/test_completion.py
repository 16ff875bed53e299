"""A shell completes every command and option, those of plugins too, with argcomplete."""

# ruff: noqa: F811  # fixtures are imported, and named again by the parameters that get them
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from distributions import write_distribution
from shop_commands import site  # noqa: F401

GREETING = """
import patchcore as pc

@pc.hookimpl
def register_commands(subparsers):
    subparsers.add_parser("greet", help="say hello", fill=fill)

def fill(parser):
    parser.add_argument("--loudly", action="store_true")
    parser.add_argument("--log-file", metavar="FILE")

@pc.hookimpl
def register_run_options(parser):
    parser.add_argument("--politely", action="store_true")
"""


@pytest.fixture
def plugin(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin with a command and an option of run."""
    monkeypatch.setenv("PYTHONPATH", str(site))
    pytest.importorskip("argcomplete")
    (site / "greeting.py").write_text(GREETING)
    write_distribution(site, "greeting", plugins={"greeting": "greeting"})


def completed(line: str, folder: Path) -> set[str]:
    """Return what is offered for the last word of a command line, run as a shell does for argcomplete."""
    answer = folder / "answer"
    answer.touch()
    subprocess.run(
        [sys.executable, "-m", "patchcore"],
        env={
            **os.environ,
            "_ARGCOMPLETE": "1",
            "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
            "_ARGCOMPLETE_IFS": "\n",
            "COMP_LINE": line,
            "COMP_POINT": str(len(line)),
        },
        cwd=folder,
        capture_output=True,
        timeout=60,
        check=True,
    )
    return {word.strip() for word in answer.read_text().split("\n")}


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("patchcore li", "list"),
        ("patchcore gre", "greet"),
        ("patchcore list --pl", "--plugin"),
        ("patchcore run --rep", "--report-dir"),
        ("patchcore run --pol", "--politely"),
        ("patchcore bisect --pol", "--politely"),
        ("patchcore greet --lou", "--loudly"),
        ("patchcore list --format js", "json"),
        ("patchcore greet --log-file ste", "steps.log"),
        ("patchcore run trai", "train.py"),
    ],
)
def test_completes(tmp_path: Path, line: str, expected: str) -> None:
    (tmp_path / "steps.log").touch()
    (tmp_path / "train.py").touch()
    assert completed(line, tmp_path) == {expected}
