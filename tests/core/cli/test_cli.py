"""What every command has in common: help, usage, settings, exit codes, pipes and terminals; and commands of plugins."""

# ruff: noqa: F811  # fixtures are imported, and named again by the parameters that get them
from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from distributions import write_distribution
from patch_folder import Result
from shop_commands import Cli, add_broken_plugin, cli, on_a_terminal, only, site  # noqa: F401

from patchcore import __version__
from patchcore.cli.options import Parser

ROOT = Path(__file__).resolve().parents[3]
COMMANDS = ["list", "explain", "check", "doctor", "run", "bisect", "lock", "suggest"]


@pytest.fixture
def shell(site: Path) -> Callable[[str], Result]:
    """Run a shell command line with ``patchcore`` or ``python`` in it, in processes of its own."""

    def run(line: str, **environment: str) -> Result:
        program = 'python() { "$PYTHON" "$@"; }; patchcore() { python -m patchcore "$@"; }\n'
        path = os.pathsep.join([str(site), str(ROOT), os.environ.get("PYTHONPATH", "")])
        ours = {"PYTHONPATH": path, "PYTHONUNBUFFERED": "", "PYTHON": sys.executable}
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", program + line],
            env={**os.environ, **ours, **environment},
            cwd=site,
            capture_output=True,
            text=True,
            timeout=900,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    return run


class TestEveryCommand:
    @pytest.mark.parametrize("command", COMMANDS)
    def test_help(self, cli: Cli, command: str) -> None:
        result = cli(command, "--help")
        assert (result.code, result.err) == (0, "")
        assert f"usage: patchcore {command} " in result.out
        assert "`" not in result.out
        assert "--plugin NAME" in result.out

    def test_overall_help_and_version(self, cli: Cli) -> None:
        out = cli("--help").out
        assert [command for command in COMMANDS if re.search(rf"^ +{command} +\w", out, flags=re.MULTILINE)] == COMMANDS
        assert "exit codes: 0 ok, 1 findings, 2 usage, 3 internal error, 130 interrupted" in out
        assert cli() == cli("--help"), "without a command it says which there are"
        assert cli("--version").out == f"patchcore {__version__}\n"

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["lst"], "patchcore: no command 'lst'; did you mean 'list'? See patchcore --help"),
            (["plan"], "patchcore: no interface is named; write: patchcore plan --compat NAME -- ARGUMENTS"),
            (["frobnicate"], "patchcore: no command 'frobnicate'. See patchcore --help"),
            (["list", "--nosuch"], "patchcore list: error: unrecognized arguments: --nosuch\n"),
            (["list", "--plugim", "shop"], "unrecognized arguments: --plugim; did you mean '--plugin'?"),
            (["list", "--disble=shop"], "unrecognized arguments: --disble=shop; did you mean '--disable'?"),
            (["run", "--strct", "train.py"], "unrecognized arguments: --strct; did you mean '--strict'?"),
            (["verify", "--rounds", "x"], "argument --rounds: expected a whole number, 1 or more, got 'x'"),
            (["verify", "--round", "3"], "unrecognized arguments: --round; did you mean '--rounds'?"),
            (["--verson"], "unrecognized arguments: --verson; did you mean '--version'?"),
            (["--nosuch", "list"], "unrecognized arguments: --nosuch\n"),
            (["list", "--format", "jsn"], "invalid choice: 'jsn'; expected one of table, json; did you mean 'json'?"),
            (["explain"], "the following arguments are required: TARGET|PATCH"),
            (["explain", ":"], "error: ':' is neither a patch nor a target; a target is written package.module:Class"),
            (["explain", "shop:"], "error: 'shop:' is neither a patch nor a target"),
            (["list", "--format", "xml"], "invalid choice: 'xml'"),
            (["list", "--disable", "shop.prize"], "did you mean 'shop.price'?"),
            (["list", "--enable", "shop.roundet"], "did you mean 'shop.rounded'?"),
            (["list", "--plugin", "shp"], "; did you mean 'shop'?"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_usage_errors(self, cli: Cli, arguments: list[str], message: str) -> None:
        result = cli(*arguments)
        assert (result.code, result.out) == (2, "")
        assert message in result.err
        assert "Traceback" not in result.err

    def test_settings_errors(self, cli: Cli, site: Path) -> None:
        (site / "pyproject.toml").write_text('[tool.patchcore]\ndisble = ["price"]\n')
        result = cli("list")
        assert result.code == 2
        assert "unknown setting 'disble'; did you mean 'disable'?" in result.err
        assert "pyproject.toml" in result.err
        helped = cli("--help")
        assert (helped.code, helped.err) == (0, result.err)

    def test_command_line_over_environment_over_pyproject(
        self, cli: Cli, site: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def chosen_by(*arguments: str) -> tuple[str, str]:
            patches = cli("list", "--format", "json", *arguments).json["patches"]
            patch = only(patches, name="shop.price")
            return patch["verdict"], (patch["chosen_by"] or "default").rpartition("/")[2]

        assert chosen_by() == ("apply", "default")
        (site / "pyproject.toml").write_text('[tool.patchcore]\ndisable = ["price"]\n')
        assert chosen_by() == ("off", "pyproject.toml [tool.patchcore]")
        monkeypatch.setenv("PATCHCORE_ENABLE", "shop.price")
        assert chosen_by() == ("apply", "PATCHCORE_ENABLE")
        assert chosen_by("--disable", "shop") == ("off", "--disable")

    def test_internal_error(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("patchcore.cli.options.Patcher.discover", lambda **_: 1 / 0)
        result = cli("list")
        assert result.code == 3
        assert "ZeroDivisionError" in result.err
        assert result.err.endswith("this is a bug in patchcore or in a plugin's command; please report it\n")

    def test_keyboard_interrupt(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupt(**_: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("patchcore.cli.options.Patcher.discover", interrupt)
        assert cli("list") == Result(130, "", "")

    def test_failure_under_the_policy_raise(self, cli: Cli, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        add_broken_plugin(site)
        monkeypatch.setenv("PATCHCORE_ON_FAILURE", "raise")
        result = cli("explain", "price")
        assert result.code == 1
        assert "patchcore: plugin broken (broken-dist 0.3): load failed" in result.err


class TestTerminal:
    COLOUR = r"\x1b\[[\d;]*\b3\d"

    def test_reader_that_goes_away(self, shell: Callable[..., Result], site: Path) -> None:
        assert shell("patchcore list --plugin shop | head -1") == Result(0, "shop  shop-npu 1.2\n", "")
        assert shell("patchcore list | true") == Result(0, "", "")  # gone before anything is printed
        # more than a pipe holds, so that it is printing that fails and not the flush at the end
        (site / "endless.py").write_text(
            "import sys\nfrom patchcore.builtin.list import command as list_\nfrom patchcore.cli import main\n"
            "list_.print_line = lambda *_, **__: print('x' * 1_000_000)\nsys.exit(main(['list']))\n"
        )
        assert shell("python endless.py | head -c 1") == Result(0, "x", "")

    def test_json_goes_to_stdout_and_diagnostics_to_stderr(self, shell: Callable[..., Result], site: Path) -> None:
        add_broken_plugin(site)
        result = shell("patchcore list --format json")
        assert only(result.json["plugins"], name="shop")
        assert "no cash register" in result.err

    @pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
    @pytest.mark.parametrize("command", ["list", "list --all", "doctor"])
    def test_tables_on_a_terminal(self, site: Path, command: str) -> None:
        shown = on_a_terminal(site, *command.split(), TERM="xterm-256color")
        assert shown.startswith("\x1b[1m")
        assert bool(re.search(self.COLOUR, shown)) == (command != "doctor")

    @pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
    def test_a_terminal_without_colours(self, site: Path) -> None:
        assert not re.search(self.COLOUR, on_a_terminal(site, "list", TERM="xterm-256color", NO_COLOR="1"))
        assert "\x1b" not in on_a_terminal(site, "list", TERM="dumb")


COMMAND_PLUGIN = """
import patchcore as pc

def greet(options):
    print("hello", options.who)
    return options.code

@pc.hookimpl
def register_commands(subparsers):
    parser = subparsers.add_parser("greet", help="say hello")
    parser.add_argument("who")
    parser.add_argument("--code", type=int)
    parser.set_defaults(command=greet)
"""


class TestPluginCommands:
    @pytest.fixture(autouse=True)
    def greeting(self, site: Path) -> None:
        (site / "greeting.py").write_text(COMMAND_PLUGIN)
        write_distribution(site, "greeting-dist", plugins={"greeting": "greeting"})
        sys.modules.pop("greeting", None)

    def test_command(self, cli: Cli) -> None:
        assert cli("greet", "world") == Result(0, "hello world\n", "")
        assert cli("greet", "world", "--code", "7").code == 7
        assert re.search(r"greet +say hello", cli("--help").out)
        assert "usage: patchcore greet" in cli("greet", "--help").out
        assert "did you mean 'greet'?" in cli("gret").err

    def test_is_not_loaded_for_the_others(self, cli: Cli, site: Path) -> None:
        (site / "greeting.py").write_text(COMMAND_PLUGIN + "\nraise ValueError('loaded')\n")
        assert cli("check", "--plugin", "shop").err == ""

    def test_a_plugin_that_fails_to_add_its_command(self, cli: Cli, site: Path) -> None:
        (site / "greeting.py").write_text(COMMAND_PLUGIN.replace('add_parser("greet"', "add_parser(1 / 0"))
        result = cli("--help")
        assert result.code == 0
        assert "plugin greeting (greeting-dist 1.0): register_commands failed: ZeroDivisionError" in result.err

    def test_a_command_that_fails(self, cli: Cli, site: Path) -> None:
        (site / "greeting.py").write_text(COMMAND_PLUGIN.replace("print(", "1 / 0, print("))
        result = cli("greet", "world")
        assert result.code == 3
        assert "ZeroDivisionError" in result.err
        assert "a plugin's command" in result.err


class TestNamesOfCommandsThatHaveCommands:
    """A plugin's command with commands of its own, made by argparse: the nearest names are told there, too."""

    @pytest.fixture
    def parser(self) -> Parser:
        def fill(parser: argparse.ArgumentParser) -> None:
            below = parser.add_subparsers(dest="action", required=True)
            below.add_parser("explain").add_argument("--format", choices=("table", "json"))
            below.add_parser("cache")

        return Parser(prog="graph", fill=fill)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["explian"], "invalid choice: 'explian'; expected one of explain, cache; did you mean 'explain'?"),
            (["explain", "--fromat", "json"], "unrecognized arguments: --fromat json; did you mean '--format'?"),
            (["explain", "--format", "tabel"], "expected one of table, json; did you mean 'table'?"),
        ],
        ids=" ".join,
    )
    def test_misspelt(
        self, parser: Parser, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit, match="2"):
            parser.parse_args(arguments)
        assert message in capsys.readouterr().err


def test_the_name_of_an_installed_plugin_after_p_gets_the_option_that_takes_it(cli: Cli, site: Path) -> None:
    (site / "till_patches.py").write_text("")
    write_distribution(site, "till-patches", plugins={"till": "till_patches"})
    result = cli("list", "-p", "till")
    assert result.code == 1
    assert "till is an installed plugin: --plugin till loads only this plugin, -p loads a module" in result.err
    result = cli("list", "-p", "till_patches")
    assert result.code == 1
    assert "cannot be loaded: ValueError: it is loaded already, as plugin 'till'\n" in result.err
    assert "till_patches belongs to an installed plugin: --plugin till loads only this plugin" in result.err


@pytest.mark.parametrize("name", ["shop_npu", "shop-npu", "shop_npu.plugin"])
def test_a_package_or_distribution_after_plugin_gets_the_name_of_the_plugin(cli: Cli, name: str) -> None:
    result = cli("list", "--plugin", name)
    assert result.code == 2
    assert "; write --plugin shop, the name of that plugin" in result.err


def test_a_module_after_plugin_gets_the_option_that_takes_it(cli: Cli, site: Path) -> None:
    (site / "patch_folder_of_mine").mkdir()
    (site / "patch_folder_of_mine" / "patch.py").write_text("")
    result = cli("list", "--plugin", "patch_folder_of_mine.patch")
    assert result.code == 2
    assert "is a module: -p patch_folder_of_mine.patch loads the patches of a module" in result.err
