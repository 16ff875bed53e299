"""docs/commands.md has every command, with the distribution that brings it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from patchcore.cli import build_parser

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")


def distributions() -> dict[str, str]:
    """Return the plugins of this repository, each with the distribution that contributes it."""
    found = {}
    for file in ROOT.glob("plugins/*/pyproject.toml"):
        text = file.read_text(encoding="utf-8")
        (name,) = re.findall(r'^name = "(.*)"$', text, re.MULTILINE)
        for plugin in re.findall(r"^\[project\.entry-points\.npu_patches\]\n(\w+) = ", text, re.MULTILINE):
            found[plugin] = name
    return found


def commands(monkeypatch: pytest.MonkeyPatch, plugins: str) -> set[str]:
    """Return the commands that there are with some plugins."""
    monkeypatch.setenv("PATCHCORE_PLUGINS", plugins)
    _, subparsers, _ = build_parser(discover=True)
    return set(subparsers.choices)


def test_every_command_is_under_its_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    built_in = commands(monkeypatch, "mmcv,no:patchcore.torch")  # mmcv has no commands
    expected = {(name, "patchcore") for name in built_in}
    expected |= {(name, "patchcore-torch") for name in commands(monkeypatch, "") - built_in}
    for plugin, distribution in distributions().items():
        expected |= {(name, distribution) for name in commands(monkeypatch, f"{plugin},no:patchcore.torch") - built_in}
    assert {distribution for _, distribution in expected} >= {"patchcore", "npu-migrate", "npu-graph", "torch-markers"}
    assert set(re.findall(r"^\| `patchcore ([\w-]+).*\| `([\w-]+)` \|$", PAGE, re.MULTILINE)) == expected
