"""settings.py: command line > environment > pyproject.toml > default, each with its origin."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import patchcore as pc
from patchcore.plugins import Plugins
from patchcore.settings import Choice, LocalModule, Settings


def load(folder: Path, toml: str = "", /, **sources: Any) -> Settings:
    if toml:
        (folder / "pyproject.toml").write_text(toml)
    return complete(start=folder, **{"environ": {}, **sources})


def complete(**sources: Any) -> Settings:
    """Return the settings of sources, with those of the built-in plugins."""
    return Settings.load(**sources).complete(Plugins(discover=False).settings())


DEFAULTS = Settings().complete(Plugins(discover=False).settings())


def test_without_any_source_there_are_the_defaults(tmp_path) -> None:
    assert load(tmp_path) == DEFAULTS
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
    assert (settings.on_failure, settings.get("log")) == ("ignore", "DEBUG")
    assert settings.get("report_dir") == str(tmp_path / "reports")
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
    assert (settings.on_failure, settings.get("log")) == ("raise", "INFO")
    assert settings.get("report_dir") == os.path.abspath("reports")
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
    assert settings.get("report_dir") == str(tmp_path / "reports")
    assert settings.origins["plugins"] == "argument"
    assert settings.origins["on_failure"] == "PATCHCORE_ON_FAILURE"


@pytest.mark.parametrize(("text", "count"), [("1", True), ("on", True), ("TRUE", True), ("0", False), ("", False)])
def test_counting_is_switched_by_a_variable(tmp_path, text, count) -> None:
    settings = load(tmp_path, "[tool.patchcore]\ncount = true\n", environ={"PATCHCORE_COUNT": text})
    assert (settings.count, settings.origins["count"]) == (count, "PATCHCORE_COUNT")


def test_counting_is_switched_by_pyproject_and_the_command_line(tmp_path) -> None:
    assert load(tmp_path, "[tool.patchcore]\ncount = true\n").count is True
    settings = load(tmp_path, environ={"PATCHCORE_COUNT": "0"}, arguments={"count": True}, origin="command line")
    assert (settings.count, settings.origins) == (True, {"count": "--count"})


@pytest.mark.parametrize("value", ["maybe", 2, [True]])
def test_what_is_no_switch_says_where(tmp_path, value) -> None:
    with pytest.raises(pc.SettingsError, match=r"argument: count = .*; expected true or false"):
        load(tmp_path, arguments={"count": value})


def test_an_empty_allow_list_means_no_plugins(tmp_path) -> None:
    assert load(tmp_path, environ={"PATCHCORE_PLUGINS": ""}).plugins == ()
    assert load(tmp_path, "[tool.patchcore]\nplugins = []\n").plugins == ()


def test_a_star_disables_everything(tmp_path) -> None:
    assert load(tmp_path, environ={"PATCHCORE_DISABLE": "*"}).choices == (Choice(False, "*", "PATCHCORE_DISABLE", 2),)


def test_an_empty_report_dir_means_none(tmp_path) -> None:
    assert load(tmp_path, TABLE, environ={"PATCHCORE_REPORT_DIR": ""}).get("report_dir") is None


def test_a_path_is_a_report_dir(tmp_path) -> None:
    assert load(tmp_path, arguments={"report_dir": tmp_path}).get("report_dir") == str(tmp_path)


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
        ("report_dir = 1", "report_dir = 1; expected a string"),
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
    assert load(inner).get("log") == "INFO"
    (inner / "pyproject.toml").write_text("[tool]\npatchcore = {log = 'error'}\n")
    assert load(inner).get("log") == "ERROR"


def test_a_pyproject_of_a_project_without_settings_changes_nothing(tmp_path) -> None:
    assert load(tmp_path, "[tool.other]\nx = 1\n") == DEFAULTS
    assert load(tmp_path, "tool = 1\n# patchcore\n") == DEFAULTS


def test_invalid_toml_that_does_not_mention_patchcore_is_not_read(tmp_path) -> None:
    assert load(tmp_path, "[broken") == DEFAULTS


def test_the_search_starts_in_the_working_directory_and_takes_relative_paths(tmp_path, monkeypatch) -> None:
    (tmp_path / "pyproject.toml").write_text(TABLE)
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    assert complete(environ={}).get("log") == "DEBUG"
    assert complete(environ={}, start=Path(".")).get("log") == "DEBUG"


def test_a_working_directory_that_was_deleted_has_no_settings(tmp_path, monkeypatch) -> None:
    def gone() -> Any:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "cwd", gone)
    assert complete(environ={}) == DEFAULTS


def test_the_environment_is_read_when_none_is_given(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PATCHCORE_LOG", "error")
    assert complete(start=tmp_path).get("log") == "ERROR"


def test_the_folder_of_the_program_comes_before_the_working_directory(tmp_path, monkeypatch) -> None:
    for name in ("project", "here"):
        (tmp_path / name / "src").mkdir(parents=True)
    (tmp_path / "here" / "pyproject.toml").write_text("[tool.patchcore]\nlog = 'error'\nreport_dir = 'r'\n")
    monkeypatch.chdir(tmp_path / "here" / "src")
    start = tmp_path / "project" / "src"
    assert complete(environ={}, start=start).get("log") == "ERROR"
    assert complete(environ={}, start=start).get("report_dir") == str(tmp_path / "here" / "r")
    (tmp_path / "project" / "pyproject.toml").write_text("[tool.patchcore]\nlog = 'info'\n")
    assert complete(environ={}, start=start).get("log") == "INFO"
    assert complete(environ={}, start=start).get("report_dir") is None
    assert complete(environ={}).get("log") == "ERROR"


# --- paths are relative to where they are written ------------------------------------------------------------------


def test_a_report_dir_is_relative_to_its_source(tmp_path, monkeypatch) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    table = "[tool.patchcore]\nreport_dir = 'out'\nvariant = 'p'\n[tool.patchcore.variants.p]\n"
    assert load(tmp_path, table).get("report_dir") == str(tmp_path / "out")
    assert load(tmp_path, f"{table}report_dir = 'deep/er'\n").get("report_dir") == str(tmp_path / "deep" / "er")
    assert load(tmp_path, environ={"PATCHCORE_REPORT_DIR": "out"}).get("report_dir") == str(tmp_path / "sub" / "out")
    assert load(tmp_path, arguments={"report_dir": "../out"}).get("report_dir") == str(tmp_path / "sub" / ".." / "out")
    assert load(tmp_path, arguments={"report_dir": "/out"}).get("report_dir") == "/out"


def test_in_a_working_directory_that_was_deleted_paths_stay_as_they_are(tmp_path, monkeypatch) -> None:
    def gone() -> Any:
        raise FileNotFoundError

    monkeypatch.setattr(Path, "cwd", gone)
    settings = load(tmp_path, environ={"PATCHCORE_REPORT_DIR": "out", "PATCHCORE_MODULES": "deals"})
    assert (settings.get("report_dir"), settings.modules) == ("out", (LocalModule("deals", None),))


# --- local modules -------------------------------------------------------------------------------------------------


def test_modules_come_from_every_source_each_from_the_directory_it_is_named_in(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path.parent)
    table = "[tool.patchcore]\nmodules = ['base', 'pkg.sub']\nvariant = 'p'\n"
    variant = "[tool.patchcore.variants.p]\nmodules = 'varied'\n"
    settings = load(
        tmp_path, table + variant, environ={"PATCHCORE_MODULES": " a , b,"}, arguments={"modules": ["z", "y.x"]}
    )
    here = os.getcwd()
    assert settings.modules == (
        LocalModule("base", str(tmp_path)),
        LocalModule("pkg.sub", str(tmp_path)),
        LocalModule("varied", str(tmp_path)),
        LocalModule("a", here),
        LocalModule("b", here),
        LocalModule("z", here),
        LocalModule("y.x", here),
    )
    assert settings.origins["modules"] == "argument"
    assert load(tmp_path, arguments={"modules": ["z"]}, origin="command line").origins["modules"] == "--module"


def test_a_module_that_is_named_twice_counts_once_where_it_was_named_first(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = "[tool.patchcore]\nmodules = ['a', 'b', 'a']\n"
    settings = load(tmp_path, table, environ={"PATCHCORE_MODULES": "c,a"}, arguments={"modules": ["b", "d"]})
    assert [module.name for module in settings.modules] == ["a", "b", "c", "d"]


def test_a_module_of_pyproject_can_be_named_again_in_another_folder(tmp_path, monkeypatch) -> None:
    (tmp_path / "tools").mkdir()
    monkeypatch.chdir(tmp_path / "tools")
    settings = load(tmp_path, "[tool.patchcore]\nmodules = ['a']\n", arguments={"modules": ["a"]})
    assert [module.name for module in settings.modules] == ["a"]


def test_no_modules(tmp_path) -> None:
    assert load(tmp_path, "[tool.patchcore]\nmodules = []\n", environ={"PATCHCORE_MODULES": ""}).modules == ()


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("deals.py", "deals"),
        ("a/b.py", "a.b"),
        ("a/b", "a.b"),
        ("a/", "a"),
        ("a.b.py", "a.b"),
        ("/a/b.py", "a.b"),
        pytest.param("./deals.py", "deals"),
    ],
)
@pytest.mark.parametrize("source", ["pyproject", "environment", "argument"])
def test_a_path_in_the_place_of_a_module_is_told_its_name(tmp_path, source, name, advice) -> None:
    sources: dict[str, Any] = {
        "pyproject": {"toml": f"[tool.patchcore]\nmodules = ['{name}']\n"},
        "environment": {"environ": {"PATCHCORE_MODULES": name}},
        "argument": {"arguments": {"modules": [name]}},
    }
    toml = sources[source].pop("toml", "")
    with pytest.raises(pc.SettingsError) as e:
        load(tmp_path, toml, **sources[source])
    where = {"pyproject": f"{tmp_path / 'pyproject.toml'} [tool.patchcore]", "environment": "PATCHCORE_MODULES"}
    assert str(e.value).startswith(f"{where.get(source, 'argument')}: modules = ")
    assert f"expected the dotted name of a module, such as {advice!r}, found {name!r}" in str(e.value)


@pytest.mark.parametrize("value", ["1a", "a-b", "a..b", ".a", "a.", "a b", "a:b"])
def test_what_is_no_name_of_a_module(tmp_path, value) -> None:
    with pytest.raises(pc.SettingsError, match="expected the dotted name of a module"):
        load(tmp_path, arguments={"modules": [value]})


@pytest.mark.parametrize("value", [3, [3], {"a": 1}])
def test_modules_are_names(tmp_path, value) -> None:
    with pytest.raises(pc.SettingsError, match=r"argument: modules = .*; expected a list of names"):
        load(tmp_path, arguments={"modules": value})


# --- variants ------------------------------------------------------------------------------------------------------


VARIANTS = """
[tool.patchcore]
log = "info"
on_failure = "ignore"
enable = ["a"]
report_dir = "base"
plugins = ["mmcv"]
options.p.n = 1

[tool.patchcore.variants.debug]
log = "debug"
disable = ["a"]
report_dir = ""
options.p.n = 2

[tool.patchcore.variants.release]
on_failure = "raise"
"""


def test_a_variant_lies_over_the_table_and_under_everything_else(tmp_path) -> None:
    environ = {"PATCHCORE_VARIANT": "debug"}
    settings = load(tmp_path, VARIANTS, environ=environ)
    base = f"{tmp_path / 'pyproject.toml'} [tool.patchcore]"
    variant = f"{tmp_path / 'pyproject.toml'} [tool.patchcore.variants.debug]"
    assert settings.variant == "debug"
    assert (settings.get("log"), settings.on_failure, settings.get("report_dir")) == ("DEBUG", "ignore", None)
    assert settings.plugins == ("mmcv",)
    assert settings.options == {"p": {"n": 2}}
    assert settings.choices == (Choice(True, "a", base, 0), Choice(False, "a", variant, 1))
    assert settings.origins == {
        "plugins": base,
        "on_failure": base,
        **dict.fromkeys(("log", "report_dir", "options"), variant),
        "variant": "PATCHCORE_VARIANT",
    }
    stronger = load(tmp_path, environ={**environ, "PATCHCORE_LOG": "error"}, arguments={"report_dir": "/r"})
    assert (stronger.get("log"), stronger.get("report_dir")) == ("ERROR", "/r")
    assert stronger.choices == settings.choices


def test_without_a_choice_no_variant_applies(tmp_path) -> None:
    settings = load(tmp_path, VARIANTS)
    assert (settings.get("log"), settings.on_failure, settings.variant) == ("INFO", "ignore", None)
    assert "variant" not in settings.origins


def test_the_strongest_source_chooses_the_variant(tmp_path) -> None:
    table = VARIANTS.replace('log = "info"', 'variant = "debug"')
    assert load(tmp_path, table).get("log") == "DEBUG"
    release = load(tmp_path, environ={"PATCHCORE_VARIANT": "release"})
    assert (release.get("log"), release.on_failure, release.variant) == (None, "raise", "release")
    arguments = {"variant": "debug"}
    debug = load(tmp_path, environ={"PATCHCORE_VARIANT": "release"}, arguments=arguments, origin="command line")
    assert (debug.get("log"), debug.on_failure, debug.origins["variant"]) == ("DEBUG", "ignore", "--variant")


def test_an_empty_name_chooses_no_variant(tmp_path) -> None:
    table = VARIANTS.replace('log = "info"', 'variant = "debug"')
    settings = load(tmp_path, table, environ={"PATCHCORE_VARIANT": ""})
    assert (settings.get("log"), settings.variant) == (None, None)
    assert load(tmp_path, "", environ={"PATCHCORE_VARIANT": "release"}, arguments={"variant": ""}).get("log") is None


def test_an_unknown_variant_is_an_error_with_the_nearest(tmp_path) -> None:
    with pytest.raises(pc.SettingsError) as e:
        load(tmp_path, VARIANTS, arguments={"variant": "debig"})
    path = tmp_path / "pyproject.toml"
    assert str(e.value) == f"{path} has no variant 'debig' (it has: debug, release); did you mean 'debug'?"
    with pytest.raises(pc.SettingsError, match=r"has no variant 'x' \(it has: none\)$"):
        load(tmp_path, "[tool.patchcore]\nvariant = 'x'\n")


def test_a_variant_without_a_pyproject_is_an_error(tmp_path) -> None:
    for sources in ({"environ": {"PATCHCORE_VARIANT": "debug"}}, {"arguments": {"variant": "debug"}}):
        with pytest.raises(pc.SettingsError) as e:
            load(tmp_path, **sources)
        expected = f"there is no variant 'debug': no pyproject.toml at or above {tmp_path} has [tool.patchcore]"
        assert str(e.value) == expected
    nothing = DEFAULTS._replace(origins={"variant": "PATCHCORE_VARIANT"})
    assert load(tmp_path, environ={"PATCHCORE_VARIANT": ""}) == nothing


def test_a_variant_cannot_choose_another(tmp_path) -> None:
    table = "[tool.patchcore.variants.a]\nvariant = 'b'\n[tool.patchcore.variants.b]\n"
    with pytest.raises(pc.SettingsError) as e:
        load(tmp_path, table, arguments={"variant": "a"})
    origin = f"{tmp_path / 'pyproject.toml'} [tool.patchcore.variants.a]"
    assert str(e.value) == f"{origin}: variant cannot be set in a variant"
    assert load(tmp_path, arguments={"variant": "b"}).variant == "b"


@pytest.mark.parametrize("variants", ["3", "['debug']", "{debug = 3}", "'debug'"])
def test_variants_are_tables(tmp_path, variants) -> None:
    with pytest.raises(pc.SettingsError) as e:
        load(tmp_path, f"[tool.patchcore]\nvariants = {variants}\n")
    assert str(e.value).startswith(f"{tmp_path / 'pyproject.toml'} [tool.patchcore]: variants = ")
    assert str(e.value).endswith("; expected tables, [tool.patchcore.variants.NAME]")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("lug = 'info'", "unknown setting 'lug'; did you mean 'log'?"),
        ("log = 'loud'", "log = 'loud'; expected one of"),
        ("variants = {}", "unknown setting 'variants'"),
    ],
)
def test_an_impossible_value_in_a_variant_says_in_which(tmp_path, line, message) -> None:
    table = f"[tool.patchcore.variants.a]\n{line}\n"
    with pytest.raises(pc.SettingsError) as e:
        load(tmp_path, table, arguments={"variant": "a"})
    assert str(e.value).startswith(f"{tmp_path / 'pyproject.toml'} [tool.patchcore.variants.a]: {message}")
    assert load(tmp_path, table) == DEFAULTS


@pytest.mark.parametrize("given", [{"toml": "[tool.patchcore]\nvariant = 3\n"}, {"arguments": {"variant": 3}}])
def test_a_variant_that_is_no_text_says_where(tmp_path, given) -> None:
    with pytest.raises(pc.SettingsError, match=r"(\[tool.patchcore\]|argument): variant = 3; expected a string"):
        load(tmp_path, given.get("toml", "[tool.patchcore]\n"), arguments=given.get("arguments"))


def test_another_patcher_whose_programs_choose_themselves_disables_all_that_nothing_else_enables(tmp_path) -> None:
    everything = Choice(False, "*", "--compat mx_driving", -1)
    settings = load(tmp_path, arguments={"compat": ["mx_driving"]}, origin="command line")
    assert settings.get("compat") == ("mx_driving",)
    assert settings.choices == (everything,)
    toml = '[tool.patchcore]\nenable = ["a"]\ncompat = ["mx_driving"]\n'
    assert [choice.name for choice in load(tmp_path, toml).choices] == ["*", "a"]


def test_names_of_other_patchers_are_not_looked_up_when_settings_are_read(tmp_path) -> None:
    assert load(tmp_path, environ={"PATCHCORE_COMPAT": "mx_drivin"}).get("compat") == ("mx_drivin",)
