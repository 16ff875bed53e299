"""``patchcore`` alone: every command in its group, on one line, and what to type first."""

# ruff: noqa: F811  # fixtures are imported, and named again by the parameters that get them
from __future__ import annotations

import re
from pathlib import Path

import pytest
from distributions import write_distribution
from shop_commands import Cli, cli, site  # noqa: F401

from patchcore.builtin.install import distributions
from patchcore.builtin.install.command import install_command
from patchcore.builtin.overview.overview import GROUPS
from patchcore.cli import build_parser


def groups(out: str) -> dict[str, list[str]]:
    """Return the commands by the title above them."""
    found: dict[str, list[str]] = {}
    for block in out.split("\n\n"):
        title, *lines = block.splitlines()
        found[title] = [line.split()[0] for line in lines]
    return found


def test_every_command_is_in_a_group_and_on_a_line_of_80_columns(cli: Cli) -> None:
    out = cli().out
    assert max(map(len, out.splitlines())) <= 80
    found = groups(out)
    _, subparsers, _ = build_parser(discover=True)
    shown = [command for group in GROUPS for command in found[group]]
    assert sorted(shown) == sorted(subparsers.choices)
    assert {"list", "run", "report"} <= set(found["use"])
    assert {"check", "verify"} <= set(found["trust"])
    assert "new" in found["write"]


def test_what_to_type_first_works(cli: Cli) -> None:
    first = re.findall(r"^  patchcore (\w+)", cli().out, flags=re.MULTILINE)
    assert first == ["suggest", "list", "run"]
    _, subparsers, _ = build_parser(discover=False)
    assert set(first) <= set(subparsers.choices)


def test_a_command_without_a_group_comes_last(cli: Cli, site: Path) -> None:
    source = """
        import patchcore as pc

        @pc.hookimpl
        def register_commands(subparsers):
            subparsers.add_parser("greet", help="say hello")
    """
    (site / "greeting.py").write_text(re.sub(r"^ {8}", "", source, flags=re.MULTILINE))
    write_distribution(site, "greeting", plugins={"greeting": "greeting"})
    assert groups(cli().out)["more"] == ["greet"]


def test_commands_of_distributions_that_are_not_installed(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATCHCORE_PLUGINS", "shop")
    monkeypatch.setattr(distributions, "version_of", lambda name: None)
    assert f"  migrate, ops  {install_command('npu-migrate')}\n" in cli().out


def test_a_misspelt_command(cli: Cli) -> None:
    result = cli("lst")
    assert (result.code, result.err) == (2, "patchcore: no command 'lst'; did you mean 'list'? See patchcore --help\n")


def test_without_this_plugin_argparse_helps(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATCHCORE_PLUGINS", "no:patchcore.overview")
    result = cli()
    assert result.code == 0
    assert result.out.startswith("usage: patchcore [-h] [--version] COMMAND ...\n")
