"""``patchcore completion``: a shell completes every command and option, those of plugins too."""

# ruff: noqa: F811  # fixtures are imported, and named again by the parameters that get them
from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from distributions import write_distribution
from shop_commands import Cli, cli, site  # noqa: F401

from patchcore.builtin.completion.command import SHELLS
from patchcore.builtin.install.command import install_command

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
def script(cli: Cli, site: Path, tmp_path: Path) -> Path:
    """The script for bash."""
    pytest.importorskip("shtab")
    (site / "greeting.py").write_text(GREETING)
    write_distribution(site, "greeting", plugins={"greeting": "greeting"})
    result = cli("completion", "bash")
    assert (result.code, result.err) == (0, "")
    path = tmp_path / "completion.bash"
    path.write_text(result.out)
    return path


def completed(script: Path, *words: str) -> set[str]:
    """Return what bash offers for the last word of a command line."""
    typed = " ".join(f"'{word}'" for word in words)
    code = f"""
        source {script}
        COMP_WORDS=(patchcore {typed})
        COMP_CWORD={len(words)}
        function=$(complete -p patchcore | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        $function patchcore '{words[-1]}' ''
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, timeout=60, cwd=script.parent)
    return set(done.stdout.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
class TestBash:
    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            (["li"], {"list"}),
            (["gre"], {"greet"}),
            (["list", "--pl"], {"--plugin"}),
            (["run", "--rep"], {"--report-dir"}),
            (["run", "--pol"], {"--politely"}),
            (["verify", "--rou"], {"--rounds"}),
            (["bisect", "--ora"], {"--oracle"}),
            (["bisect", "--pol"], {"--politely"}),
            (["greet", "--lou"], {"--loudly"}),
            (["list", "--format", "js"], {"json"}),
        ],
        ids=" ".join,
    )
    def test_completes(self, script: Path, words: list[str], expected: set[str]) -> None:
        assert completed(script, *words) == expected

    def test_completes_files(self, script: Path) -> None:
        (script.parent / "steps.log").touch()
        assert completed(script, "greet", "--log-file", "ste") == {"steps.log"}


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_a_script_with_every_command(cli: Cli, shell: str) -> None:
    pytest.importorskip("shtab")
    out = cli("completion", shell).out
    assert all(re.search(rf"\b{name}\b", out) for name in ("list", "run", "verify", "bisect", "report-dir"))


def test_the_help_says_how_to_switch_it_on(cli: Cli) -> None:
    text = " ".join(cli("completion", "--help").out.split())
    for shell, file in SHELLS.items():
        assert f"{shell}: patchcore completion {shell} > {file}" in text


def test_without_shtab_it_says_what_to_install(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    result = cli("completion", "fish")
    expected = f"patchcore: patchcore completion needs shtab: {install_command('shtab>=1.7')}\n"
    assert (result.code, result.err) == (2, expected)
