""".pre-commit-hooks.yaml: each hook is a command line that patchcore accepts."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from patchcore.cli import build_parser

HOOKS = Path(__file__).resolve().parents[2] / ".pre-commit-hooks.yaml"


def test_each_hook_is_a_command_that_patchcore_has() -> None:
    text = HOOKS.read_text(encoding="utf-8")
    entries = [shlex.split(entry) for entry in re.findall(r"^  entry: (.+)$", text, re.MULTILINE)]
    assert entries == [["patchcore", "check"], ["patchcore", "lock", "--check"]]
    parser, _, _ = build_parser(discover=False)
    for _, *arguments in entries:
        assert callable(parser.parse_args(arguments).command)


def test_no_hook_gets_the_names_of_files() -> None:
    hooks = HOOKS.read_text(encoding="utf-8").split("\n- ")[1:]
    assert len(hooks) == 2
    assert all("pass_filenames: false" in hook and "always_run: true" in hook for hook in hooks)
