"""settings.py: command line > environment > pyproject.toml > default, each with its origin."""

from __future__ import annotations

import os
import re
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


COUNTING = "[tool.patchcore]\ncount = true\n"


@pytest.mark.parametrize(
    ("toml", "sources", "key", "value"),
    [
        (COUNTING, {}, "count", True),
        (COUNTING, {"environ": {"PATCHCORE_COUNT": "0"}}, "count", False),
        (COUNTING, {"environ": {"PATCHCORE_COUNT": ""}}, "count", False),
        ("", {"environ": {"PATCHCORE_COUNT": "on"}}, "count", True),
        ("", {"environ": {"PATCHCORE_COUNT": "TRUE"}}, "count", True),
        ("", {"environ": {"PATCHCORE_COUNT": "0"}, "arguments": {"count": True}}, "count", True),
        ("", {"environ": {"PATCHCORE_PLUGINS": ""}}, "plugins", ()),
        ("[tool.patchcore]\nplugins = []\n", {}, "plugins", ()),
        ("", {"environ": {"PATCHCORE_DISABLE": "*"}}, "choices", (Choice(False, "*", "PATCHCORE_DISABLE", 2),)),
        ("[tool.patchcore]\nmodules = []\n", {"environ": {"PATCHCORE_MODULES": ""}}, "modules", ()),
    ],
)
def test_a_value_is_read(tmp_path, toml, sources, key, value) -> None:
    settings = load(tmp_path, toml, **sources)
    assert getattr(settings, key) == value
    assert key == "choices" or key in settings.origins


def test_a_report_dir_is_a_path_or_none(tmp_path) -> None:
    assert load(tmp_path, TABLE, environ={"PATCHCORE_REPORT_DIR": ""}).get("report_dir") is None
    assert load(tmp_path, arguments={"report_dir": tmp_path}).get("report_dir") == str(tmp_path)


@pytest.mark.parametrize("toml", ["[tool.other]\nx = 1\n", "tool = 1\n# patchcore\n", "[broken"])
def test_a_pyproject_of_a_project_without_settings_changes_nothing(tmp_path, toml) -> None:
    assert load(tmp_path, toml) == DEFAULTS


# --- errors --------------------------------------------------------------------------------------------------------

#: By the source, ``.`` for the table in pyproject.toml and ``a`` for a variant in it: what is written there, and what
#: the error says after the source.
ERRORS = [
    (".", "disabled = []", "unknown setting 'disabled'; did you mean 'disable'?"),
    (".", "on-failure = 'raise'", "unknown setting 'on-failure'; did you mean 'on_failure'?"),
    (".", "on_failure = 'rais'", "on_failure = 'rais'; expected one of warn, raise, ignore; did you mean 'raise'?"),
    (".", "on_failure = ['raise']", "on_failure = ['raise']; expected one of"),
    (".", "disable = 3", "disable = 3; expected a list of names"),
    (".", "disable = [3]", "disable = [3]; expected a list of names"),
    (".", "log = 'loud'", "log = 'loud'; expected one of DEBUG"),
    (".", "log = 10", "log = 10; expected one of"),
    (".", "report_dir = 1", "report_dir = 1; expected a string"),
    (".", "options = 1", "options = 1; expected a table per patch"),
    (".", "options = {a = 1}", "options = {'a': 1}; expected a table per patch, [tool.patchcore.options"),
    (".", "variant = 3", "variant = 3; expected a string"),
    *((".", f"variants = {value}", "variants = ") for value in ("3", "['debug']", "{debug = 3}", "'debug'")),
    ("a", "lug = 'info'", "unknown setting 'lug'; did you mean 'log'?"),
    ("a", "log = 'loud'", "log = 'loud'; expected one of"),
    ("a", "variants = {}", "unknown setting 'variants'"),
    ("a", "variant = 'b'", "variant cannot be set in a variant"),
    ("PATCHCORE_ON_FAILURE", "explode", "on_failure = 'explode'; expected one of"),
    *(("argument", {"count": value}, f"count = {value!r}; expected true or false") for value in ("maybe", 2, [True])),
    *(("argument", {"modules": value}, f"modules = {value!r}; expected a list of names") for value in (3, [3])),
    *(
        ("argument", {"modules": [name]}, f"modules = {[name]!r}; expected the dotted name of a module")
        for name in ("1a", "a-b", "a..b", ".a", "a.", "a b", "a:b")
    ),
]


@pytest.mark.parametrize(("source", "given", "message"), ERRORS, ids=str)
def test_an_impossible_value_says_where_and_what_was_expected(tmp_path, source, given, message) -> None:
    origin = f"{tmp_path / 'pyproject.toml'} [tool.patchcore{'.variants.a' if source == 'a' else ''}]"
    toml, sources = "[tool.patchcore]\n", {}
    if source in (".", "a"):
        toml = f"{origin.partition(' ')[2]}\n{given}\n"
        sources = {"arguments": {"variant": "a"}} if source == "a" else {}
    elif source == "argument":
        origin, sources = source, {"arguments": given}
    else:
        origin, sources = source, {"environ": {source: given}}
    with pytest.raises(pc.SettingsError) as e:
        load(tmp_path, toml, **sources)
    assert str(e.value).startswith(f"{origin}: {message}")
    if given.__class__ is str and given.startswith("variants = ") and source == ".":
        assert str(e.value).endswith("; expected tables, [tool.patchcore.variants.NAME]")
    if source == "a":  # read only where it is chosen
        assert load(tmp_path, toml) == DEFAULTS


def test_a_value_in_the_place_of_the_table_is_an_error(tmp_path) -> None:
    with pytest.raises(pc.SettingsError, match=r"tool\.patchcore = 3; expected a table"):
        load(tmp_path, "[tool]\npatchcore = 3\n")


@pytest.mark.parametrize("content", [b"[tool.patchcore\n", b"[tool.patchcore]\nlog = '\xff'\n", b"[tool.patchcore]\n]"])
def test_invalid_toml_is_an_error_with_the_file(tmp_path, content) -> None:
    (tmp_path / "pyproject.toml").write_bytes(content)
    with pytest.raises(pc.SettingsError, match=r"pyproject\.toml cannot be read"):
        load(tmp_path)


def test_a_read_error_is_an_error_with_the_file(tmp_path, monkeypatch) -> None:
    (tmp_path / "pyproject.toml").write_text(TABLE)

    def refuse(path: Path) -> bytes:
        raise PermissionError("not allowed")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(pc.SettingsError, match=r"pyproject\.toml cannot be read: not allowed"):
        load(tmp_path)


# --- where pyproject.toml is looked for ----------------------------------------------------------------------------


def test_the_nearest_pyproject_with_a_table_above_is_used(tmp_path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text("[tool.patchcore]\nlog = 'info'\n")
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'patchcore-user'\ndependencies = ['patchcore']\n")
    assert load(inner).get("log") == "INFO"
    (inner / "pyproject.toml").write_text("[tool]\npatchcore = {log = 'error'}\n")
    assert load(inner).get("log") == "ERROR"


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


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"shop": "1.2"}, {"shop": "1.2"}),
        ("shop=1.2, till = 3.dev1 ,", {"shop": "1.2", "till": "3.dev1"}),
        ("", {}),
    ],
)
def test_versions_of_libraries(given, expected) -> None:
    settings = Settings.load(arguments={"library_versions": given}, environ={})
    assert settings.library_versions == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["shop"], "expected a table"),
        ("shop", 'shop = None; expected a table, {shop = "1.2"}'),
        ({"shop": 1.2}, "shop = 1.2; expected a table"),
        ({"shop-till": "1"}, "with packages as they are imported"),
        ({"shop": "new"}, "'new' of shop is no version (PEP 440)"),
    ],
)
def test_versions_of_libraries_are_checked(given, message) -> None:
    with pytest.raises(pc.SettingsError, match=re.escape(message)):
        Settings.load(arguments={"library_versions": given}, environ={})


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


def test_another_patcher_whose_programs_choose_themselves_disables_all_that_nothing_else_enables(tmp_path) -> None:
    everything = Choice(False, "*", "--compat mx_driving", -1)
    settings = load(tmp_path, arguments={"compat": ["mx_driving"]}, origin="command line")
    assert settings.get("compat") == ("mx_driving",)
    assert settings.choices == (everything,)
    toml = '[tool.patchcore]\nenable = ["a"]\ncompat = ["mx_driving"]\n'
    assert [choice.name for choice in load(tmp_path, toml).choices] == ["*", "a"]


def test_names_of_other_patchers_are_not_looked_up_when_settings_are_read(tmp_path) -> None:
    assert load(tmp_path, environ={"PATCHCORE_COMPAT": "mx_drivin"}).get("compat") == ("mx_drivin",)
