"""settings.py: command line > environment > pyproject.toml > default, each with its origin."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import patchcore as pc
from patchcore.settings import Choice, Settings


def load(folder: Path, toml: str = "", /, **sources: Any) -> Settings:
    if toml:
        (folder / "pyproject.toml").write_text(toml)
    return Settings.load(start=folder, **{"environ": {}, **sources})


def test_without_any_source_there_are_the_defaults(tmp_path) -> None:
    assert load(tmp_path) == Settings()
    assert Settings().plugins is None
    assert Settings().on_failure == "warn"


TABLE = """
[tool.patchcore]
plugins = ["mmcv"]
enable = ["a"]
disable = "b, c"
on_failure = "ignore"
report_dir = "reports"
log = "debug"
[tool.patchcore.options."mmcv.conv"]
groups = 2
"""


def test_every_key_of_pyproject_is_read_with_its_origin(tmp_path) -> None:
    settings = load(tmp_path, TABLE)
    origin = f"{tmp_path / 'pyproject.toml'} [tool.patchcore]"
    assert settings.plugins == ("mmcv",)
    assert settings.choices == (
        Choice(True, "a", origin, 0),
        Choice(False, "b", origin, 0),
        Choice(False, "c", origin, 0),
    )
    assert (settings.on_failure, settings.log) == ("ignore", "DEBUG")
    assert settings.report_dir == str(tmp_path / "reports")
    assert settings.options == {"mmcv.conv": {"groups": 2}}
    assert settings.origins == dict.fromkeys(("plugins", "on_failure", "report_dir", "log", "options"), origin)


def test_every_variable_is_read_with_its_origin(tmp_path) -> None:
    environ = {
        "PATCHCORE_PLUGINS": "mmcv,torch_npu",
        "PATCHCORE_ENABLE": "a",
        "PATCHCORE_DISABLE": " b , c,",
        "PATCHCORE_ON_FAILURE": "raise",
        "PATCHCORE_REPORT_DIR": "reports",
        "PATCHCORE_LOG": "INFO",
        "HOME": "/root",
    }
    settings = load(tmp_path, environ=environ)
    assert settings.plugins == ("mmcv", "torch_npu")
    assert settings.choices == (
        Choice(True, "a", "PATCHCORE_ENABLE", 2),
        Choice(False, "b", "PATCHCORE_DISABLE", 2),
        Choice(False, "c", "PATCHCORE_DISABLE", 2),
    )
    assert (settings.on_failure, settings.log) == ("raise", "INFO")
    assert settings.report_dir == os.path.abspath("reports")
    assert settings.origins["on_failure"] == "PATCHCORE_ON_FAILURE"


def test_arguments_are_spelled_as_options_on_the_command_line(tmp_path) -> None:
    arguments = {"disable": ["a"], "on_failure": "raise", "plugins": None}
    settings = load(tmp_path, arguments=arguments, origin="command line")
    assert settings.choices == (Choice(False, "a", "--disable", 3),)
    assert settings.origins == {"on_failure": "--strict"}
    assert load(tmp_path, arguments={"on_failure": "raise"}).origins == {"on_failure": "argument"}


def test_the_stronger_source_wins_key_by_key(tmp_path) -> None:
    environ = {"PATCHCORE_ON_FAILURE": "raise", "PATCHCORE_PLUGINS": "text"}
    settings = load(tmp_path, TABLE, environ=environ, arguments={"plugins": ["vision"]})
    assert settings.plugins == ("vision",)
    assert settings.on_failure == "raise"
    assert settings.report_dir == str(tmp_path / "reports")
    assert settings.origins["plugins"] == "argument"
    assert settings.origins["on_failure"] == "PATCHCORE_ON_FAILURE"


def test_an_empty_allow_list_means_no_plugins(tmp_path) -> None:
    assert load(tmp_path, environ={"PATCHCORE_PLUGINS": ""}).plugins == ()
    assert load(tmp_path, "[tool.patchcore]\nplugins = []\n").plugins == ()


def test_a_star_disables_everything(tmp_path) -> None:
    assert load(tmp_path, environ={"PATCHCORE_DISABLE": "*"}).choices == (Choice(False, "*", "PATCHCORE_DISABLE", 2),)


def test_an_empty_report_dir_means_none(tmp_path) -> None:
    assert load(tmp_path, TABLE, environ={"PATCHCORE_REPORT_DIR": ""}).report_dir is None


def test_a_path_is_a_report_dir(tmp_path) -> None:
    assert load(tmp_path, arguments={"report_dir": tmp_path}).report_dir == str(tmp_path)


# --- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("disabled = []", r"unknown setting 'disabled'; did you mean 'disable'\?"),
        ("on-failure = 'raise'", r"unknown setting 'on-failure'; did you mean 'on_failure'\?"),
        ("on_failure = 'rais'", r"on_failure = 'rais'; expected one of warn, raise, ignore; did you mean 'raise'\?"),
        ("on_failure = ['raise']", r"on_failure = \['raise'\]; expected one of"),
        ("disable = 3", "disable = 3; expected a list of names"),
        ("disable = [3]", r"disable = \[3\]; expected a list of names"),
        ("log = 'loud'", "log = 'loud'; expected one of DEBUG"),
        ("log = 10", "log = 10; expected one of"),
        ("report_dir = 1", "report_dir = 1; expected text"),
        ("options = 1", "options = 1; expected a table per patch"),
        ("options = {a = 1}", r"expected a table per patch, \[tool.patchcore.options"),
    ],
)
def test_an_impossible_value_says_where_and_what_was_expected(tmp_path, table, message) -> None:
    with pytest.raises(pc.SettingsError, match=message) as e:
        load(tmp_path, f"[tool.patchcore]\n{table}\n")
    assert str(e.value).startswith(f"{tmp_path / 'pyproject.toml'} [tool.patchcore]: ")


def test_an_impossible_variable_is_named(tmp_path) -> None:
    with pytest.raises(pc.SettingsError, match=r"PATCHCORE_ON_FAILURE: on_failure = 'explode'; expected one of"):
        load(tmp_path, environ={"PATCHCORE_ON_FAILURE": "explode"})


@pytest.mark.parametrize("content", [b"[tool.patchcore\n", b"[tool.patchcore]\nlog = '\xff'\n", b"[tool.patchcore]\n]"])
def test_invalid_toml_is_an_error_with_the_file(tmp_path, content) -> None:
    (tmp_path / "pyproject.toml").write_bytes(content)
    with pytest.raises(pc.SettingsError, match=r"pyproject\.toml cannot be read"):
        load(tmp_path)


@pytest.mark.skipif(os.name == "nt" or not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads every file")
def test_an_unreadable_file_is_an_error_with_the_file(tmp_path) -> None:
    (tmp_path / "pyproject.toml").write_text(TABLE)
    (tmp_path / "pyproject.toml").chmod(0)
    with pytest.raises(pc.SettingsError, match=r"pyproject\.toml cannot be read"):
        load(tmp_path)


def test_a_read_error_is_an_error_with_the_file(tmp_path, monkeypatch) -> None:
    (tmp_path / "pyproject.toml").write_text(TABLE)

    def refuse(path: Path) -> bytes:
        raise PermissionError("not allowed")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(pc.SettingsError, match=r"pyproject\.toml cannot be read: not allowed"):
        load(tmp_path)


def test_a_value_in_the_place_of_the_table_is_an_error(tmp_path) -> None:
    with pytest.raises(pc.SettingsError, match=r"tool\.patchcore = 3; expected a table"):
        load(tmp_path, "[tool]\npatchcore = 3\n")


# --- where pyproject.toml is looked for ----------------------------------------------------------------------------


def test_the_nearest_pyproject_with_a_table_above_is_used(tmp_path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.patchcore]\nlog = 'info'\n")
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'patchcore-user'\ndependencies = ['patchcore']\n")
    assert load(inner).log == "INFO"
    (inner / "pyproject.toml").write_text("[tool]\npatchcore = {log = 'error'}\n")
    assert load(inner).log == "ERROR"


def test_a_pyproject_of_a_project_without_settings_changes_nothing(tmp_path) -> None:
    assert load(tmp_path, "[tool.other]\nx = 1\n") == Settings()
    assert load(tmp_path, "tool = 1\n# patchcore\n") == Settings()


def test_invalid_toml_that_does_not_mention_patchcore_is_not_read(tmp_path) -> None:
    assert load(tmp_path, "[broken") == Settings()


def test_the_search_starts_in_the_working_directory_and_takes_relative_paths(tmp_path, monkeypatch) -> None:
    (tmp_path / "pyproject.toml").write_text(TABLE)
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    assert Settings.load(environ={}).log == "DEBUG"
    assert Settings.load(environ={}, start=Path(".")).log == "DEBUG"


def test_a_working_directory_that_was_deleted_has_no_settings(tmp_path, monkeypatch) -> None:
    def gone() -> Any:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "cwd", gone)
    assert Settings.load(environ={}) == Settings()


def test_the_environment_is_read_when_none_is_given(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PATCHCORE_LOG", "error")
    assert Settings.load(start=tmp_path).log == "ERROR"
