"""``patchcore init``: a commented table whose lines all work, and never over an existing one."""

# ruff: noqa: F811  # fixtures are imported, and named again by the parameters that get them
from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from shop_commands import Cli, cli, site  # noqa: F401

from patchcore.builtin.init.command import EXAMPLES, table
from patchcore.plugins import Plugins
from patchcore.settings import KEYS, Setting, Settings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HEADER = "[tool.patchcore]\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def test_every_line_is_a_comment(cli: Cli, project: Path) -> None:
    result = cli("init", str(project))
    assert result.code == 0
    first, *lines = (project / "pyproject.toml").read_text().splitlines()
    assert first == "[tool.patchcore]"
    assert all(line.startswith("# ") for line in lines)


@pytest.mark.parametrize("example", [*EXAMPLES, *(s.example for s in Plugins(discover=False).settings())])
def test_each_line_works_without_its_comment_sign(example: str, tmp_path: Path) -> None:
    assert re.search(r"  # \w", example), "it says what it does"
    variants = "variants.cpu = {}\n" if example.startswith("variant ") else ""
    (tmp_path / "pyproject.toml").write_text(f"{HEADER}{example}\n{variants}")
    known = Plugins(discover=False).settings()
    settings, default = Settings.load(environ={}, start=tmp_path).complete(known), Settings().complete(known)
    (key, *_) = tomllib.loads(example)
    if key in ("enable", "disable"):
        assert [choice.enable for choice in settings.choices] == [key == "enable"]
    elif key != "variants":
        assert settings.get(key) != default.get(key)


def test_no_setting_is_forgotten() -> None:
    settings = Plugins(discover=False).settings()
    named = {next(iter(tomllib.loads(line[2:]))) for line in table(settings).splitlines()[1:]}
    assert named == {*KEYS, "variants", *(setting.key for setting in settings)}


def test_settings_of_plugins_without_an_example_are_there() -> None:
    assert '# threads = ""  # a setting of a plugin' in table([Setting("threads", lambda *_: None)])


@pytest.mark.parametrize(
    ("before", "between"),
    [("[project]\nname = 'x'\n", "\n"), ("[project]\nname = 'x'", "\n\n"), ("[project]\r\nname = 'x'\r\n", "\r\n")],
)
def test_what_is_in_the_file_stays(cli: Cli, project: Path, before: str, between: str) -> None:
    path = project / "pyproject.toml"
    path.write_bytes(before.encode())
    assert cli("init", str(project)).code == 0
    after = path.read_bytes().decode()
    assert after.startswith(f"{before}{between}[tool.patchcore]")
    assert after.count("\r\n") in (0, after.count("\n"))


@pytest.mark.parametrize("before", [HEADER, "[tool.patchcore.options.x]\na = 1\n", "tool.patchcore.log = 'INFO'\n"])
def test_an_existing_table_is_left_alone(cli: Cli, project: Path, before: str) -> None:
    (project / "pyproject.toml").write_text(before)
    result = cli("init", str(project))
    assert result.code == 2
    assert "has [tool.patchcore] already; patchcore init --print shows all settings" in result.err
    assert (project / "pyproject.toml").read_text() == before
    assert cli("init", "--print").out.startswith(HEADER)


def test_a_file_that_takes_no_table_is_left_alone(cli: Cli, project: Path) -> None:
    (project / "pyproject.toml").write_text("tool = { ruff = {} }\n")
    assert cli("init", str(project)).code == 2
    assert (project / "pyproject.toml").read_text() == "tool = { ruff = {} }\n"


def test_a_folder_that_is_not_there(cli: Cli) -> None:
    result = cli("init", "nowhere")
    assert (result.code, result.err) == (2, "patchcore: there is no folder nowhere\n")
