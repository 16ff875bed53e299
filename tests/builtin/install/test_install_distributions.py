"""The file of the project's distributions says what their plugins really have."""

from __future__ import annotations

import inspect
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from patchcore.builtin.install import advice, distributions
from patchcore.builtin.install.advice import describe_module, describe_source
from patchcore.builtin.install.command import install_command
from patchcore.builtin.install.distributions import Distribution, known_distributions
from patchcore.cli.options import Parser
from patchcore.patcher import Patcher
from patchcore.planning.provenance import PATCHES, SUPPORT
from patchcore.plugins import Plugins, installed_plugins
from patchcore.settings import Settings

KNOWN = known_distributions()
INSTALLED = {provenance.distribution for group in (PATCHES, SUPPORT) for provenance, _ in installed_plugins(group)}


@pytest.fixture(params=KNOWN, ids=[distribution.name for distribution in KNOWN])
def distribution(request: pytest.FixtureRequest) -> Distribution:
    found: Distribution = request.param
    if found.name not in INSTALLED:
        pytest.skip(f"{found.name} is not installed")
    return found


def plugin_of(distribution: Distribution) -> Any:
    return Plugins(allowed=[distribution.plugin])


def implementations(distribution: Distribution, hook: str) -> list[Any]:
    plugins = plugin_of(distribution)
    assert distribution.plugin in {**plugins.support, **plugins.provenances}
    own = {found.plugin for found in plugins.installed if found.distribution == distribution.name}
    return [found.function for found in getattr(plugins.manager.hook, hook).get_hookimpls() if found.plugin_name in own]


def test_commands(distribution: Distribution) -> None:
    subparsers = Parser().add_subparsers()
    for register in implementations(distribution, "register_commands"):
        register(subparsers)
    assert sorted(subparsers.choices) == sorted(distribution.commands)


def test_options_of_run_and_verify(distribution: Distribution) -> None:
    parser = Parser(add_help=False)
    for register in implementations(distribution, "register_run_options"):
        given = {"parser": parser, "command": "run"}
        register(**{name: given[name] for name in inspect.signature(register).parameters})
    assert sorted(parser._option_string_actions) == sorted(distribution.options)


@pytest.mark.parametrize("command", ["run", "verify"])
def test_each_command_has_the_options_that_its_plugins_read(distribution: Distribution, command: str) -> None:
    parser = Parser(add_help=False)
    for register in implementations(distribution, "register_run_options"):
        given = {"parser": parser, "command": command}
        register(**{name: given[name] for name in inspect.signature(register).parameters})
    options = parser.parse_args([])
    for configure in implementations(distribution, "configure_run"):
        given = {"options": options, "settings": Settings()}
        configure(**{name: given[name] for name in inspect.signature(configure).parameters})


def test_supported_versions_are_those_of_the_patches(distribution: Distribution) -> None:
    patches = [candidate.patch for candidate in Patcher(plugins=plugin_of(distribution)).collect()]
    required = [re.match(r"([\w-]+)(.*)", text) for patch in patches for text in patch.requires]
    for library, supported in distribution.versions.items():
        specs = [SpecifierSet(match[2]) for match in required if match and match[1] == library]
        for operator, choose in ((">=", min), ("<", max)):
            ends = [[Version(s.version) for s in spec if s.operator == operator] for spec in specs]
            expected = choose([end for (end,) in ends]) if all(ends) else None  # one patch without it is for all
            said = next((Version(s.version) for s in SpecifierSet(supported) if s.operator == operator), None)
            assert (library, said) == (library, expected)


def test_imports_are_of_libraries_that_the_patches_are_for(distribution: Distribution) -> None:
    patches = [candidate.patch for candidate in Patcher(plugins=plugin_of(distribution)).collect()]
    if patches:
        roots = {change.target.root for patch in patches for change in patch.changes}
        assert {name.partition(".")[0] for name in distribution.imports} <= roots


class TestWhereSomethingComesFrom:
    @pytest.fixture(autouse=True)
    def nothing_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(distributions, "version_of", lambda name: None)

    @pytest.mark.parametrize(
        ("name", "command", "expected"),
        [
            ("ops", "", "npu-migrate"),
            ("graph", "", "npu-graph"),
            ("--emulate-npu", "run", "npu-emulator"),
            ("--markers", "verify", "torch-markers"),
        ],
    )
    def test_what_to_install(self, name: str, command: str, expected: str) -> None:
        assert describe_source(name, command) == f"it comes with {expected}: {install_command(expected)}"

    @pytest.mark.parametrize(
        ("name", "command"), [("nosuch", ""), ("--emulate-npu", ""), ("--emulate-npu", "list"), ("ops", "run")]
    )
    def test_nothing_is_made_up(self, name: str, command: str) -> None:
        assert describe_source(name, command) is None


def test_installed_and_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributions, "version_of", lambda name: "0.1.0")
    said = describe_source("ops", "")
    assert said is not None
    assert said.startswith("it comes with npu-migrate 0.1.0, which is installed, but its plugin npu_migrate is not ")


class TestCompilers:
    @pytest.fixture(autouse=True)
    def nothing_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(advice, "find_module", lambda name: False)

    @pytest.mark.parametrize(
        ("module", "library"), [("mmcv.ops", "mmcv"), ("mmdet3d", "mmcv"), ("torch_scatter", "torch_scatter")]
    )
    def test_what_is_compiled_names_a_compiler_that_is_missing(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, module: str, library: str
    ) -> None:
        monkeypatch.delenv("CXX", raising=False)
        monkeypatch.setenv("PATH", str(tmp_path))
        needed = f"{library} is compiled then, and no C++ compiler is on PATH; install one first: apt-get install g++"
        assert needed in str(describe_module(module))
        monkeypatch.setenv("CXX", f"{shlex.quote(sys.executable)} -O1")
        assert "compile" not in str(describe_module(module))

    def test_a_library_that_is_not_compiled_needs_none(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        assert "compile" not in str(describe_module("torch"))
