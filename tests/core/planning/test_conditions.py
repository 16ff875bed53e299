"""conditions.py: does a patch fit here? Answered from metadata, without importing what it asks about."""

from __future__ import annotations

import importlib.machinery
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from distributions import write_distribution

import patchcore as pc
from patchcore.planning.conditions import Environment

EXPLODES = {"mmcv": "raise SystemExit('imported')"}


def judge(**declaration: Any) -> tuple[str, str]:
    verdict = Environment().judge(pc.Patch("patch", [pc.Replace("json:dumps", len)], **declaration))
    return verdict.word, verdict.reason


@pytest.fixture(autouse=True)
def nothing_installed() -> Iterator[None]:
    """Hide the real libraries: what is installed is what a test installs."""
    import packaging.requirements  # noqa: F401  # is needed

    before = list(sys.path)
    sys.path[:] = [path for path in before if not path.endswith("site-packages")]
    yield
    sys.path[:] = before


# --- requires ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("distribution", ["mmcv", "mmcv-full", "mmcv-lite"])
def test_an_import_package_is_met_by_whichever_distribution_provides_it(make_package, distribution) -> None:
    write_distribution(make_package(EXPLODES), distribution, "1.7.1", packages=["mmcv"])
    assert Environment().version("mmcv") == "1.7.1"
    assert judge(requires="mmcv>=1.3,<2") == ("apply", "")
    assert judge(requires="mmcv>=2") == ("skipped", "requires mmcv>=2, found mmcv 1.7.1")
    assert "mmcv" not in sys.modules


def test_a_library_counts_as_the_version_that_the_user_sets(make_package) -> None:
    write_distribution(make_package(EXPLODES), "mmcv", "0.1.dev1+g5e40263c3", packages=["mmcv"])
    patch = pc.Patch("patch", [pc.Replace("mmcv:ops", len)], requires="mmcv>=2")
    assert pc.Patcher([patch]).plan()["patch"].reason == (
        "requires mmcv>=2, found mmcv 0.1.dev1+g5e40263c3, a development build "
        '(library_versions = {mmcv = "..."} in [tool.patchcore] is the version that it counts as)'
    )
    settings = pc.Settings.load(arguments={"library_versions": {"mmcv": "2.1"}}, environ={})
    assert pc.Patcher([patch], settings=settings).plan()["patch"].verdict == "apply"
    newer = pc.Settings.load(environ={"PATCHCORE_LIBRARY_VERSIONS": "mmcv=3"})
    assert pc.Patcher([patch.evolve(requires=("mmcv<3",))], settings=newer).plan()["patch"].reason == (
        "requires mmcv<3, found mmcv 3"
    )
    assert "mmcv" not in sys.modules


def test_a_library_that_is_not_installed_has_no_version_whatever_the_user_sets() -> None:
    assert Environment({"mmcv": "2.1"}).version("mmcv") is None
    assert Environment({"mmcv": "2.1"}).unmet("mmcv>=2") == "requires mmcv>=2, mmcv is not installed"


def test_a_distribution_without_top_level_txt_provides_what_its_record_lists(make_package) -> None:
    folder = make_package({**EXPLODES, "single": "", "compiled": ""})
    record = ["mmcv/__init__.py", "single.py", "compiled.cpython-311-x86_64-linux-gnu.so", "../../bin/tool"]
    write_distribution(folder, "mmcv-next", "2.1", record=record)
    for file in record[:3]:  # from Python 3.12 on, files that are not there do not count
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text("raise AssertionError('imported')")
    environment = Environment()
    assert [environment.version(name) for name in ("mmcv", "single", "compiled")] == ["2.1", "2.1", "2.1"]


def test_the_distribution_itself_may_be_named(make_package) -> None:
    write_distribution(make_package(EXPLODES), "mmcv-full", "1.7.1", packages=["mmcv"])
    assert judge(requires=["mmcv-full>=1.7", "mmcv_full<2"]) == ("apply", "")


def test_what_is_left_of_a_broken_installation_is_passed_over(make_package) -> None:
    folder = make_package(EXPLODES)
    (folder / "aaa-1.0.dist-info").mkdir()
    (folder / "aaa-1.0.dist-info" / "top_level.txt").write_text("mmcv\n")
    write_distribution(folder, "mmcv-full", "1.7.1", packages=["mmcv"])
    assert judge(requires="mmcv>=1.7") == ("apply", "")


def test_broken_metadata_of_the_required_distribution_is_not_a_version(make_package) -> None:
    folder = make_package(EXPLODES)
    (folder / "mmcv-1.0.dist-info").mkdir()
    assert judge(requires="mmcv")[0] == "apply"
    status, reason = judge(requires="mmcv>=1")
    assert (status, reason) == (
        "skipped",
        "requires mmcv>=1, the version of mmcv is unknown: no distribution provides it",
    )


@pytest.mark.parametrize(
    ("installed", "specifier", "fits"),
    [
        ("2.0.0", ">=2,<3", True),
        ("3.0", ">=2,<3", False),
        ("2.0.0rc4", ">=2", False),
        ("2.0.0rc4", ">=2.0.0rc1", True),
        ("2.1.0rc1", ">=2", True),
        ("2.1.0.dev20240101", ">=2", True),
        ("2.1.0+cpu", "==2.1.0", True),
        ("2.1.0a0+git123", "<2.1", False),
        ("1.2.3", "==1.2.*", True),
        ("1.2.3", "!=1.2.3", False),
    ],
)
def test_version_specifiers(make_package, installed, specifier, fits) -> None:
    write_distribution(make_package(EXPLODES), "mmcv", installed)
    assert judge(requires=f"mmcv{specifier}")[0] == ("apply" if fits else "skipped")


def test_a_version_that_is_none_is_skipped_with_the_version(make_package) -> None:
    write_distribution(make_package(EXPLODES), "mmcv", "trunk")
    status, reason = judge(requires="mmcv>=2")
    assert status == "skipped"
    assert reason.startswith("requires mmcv>=2, found mmcv trunk")


@pytest.mark.parametrize("requirement", ["mmcv>>2", "mmcv >=", ">=2", "mmcv==two", "mmcv>=2 <3"])
def test_a_malformed_requirement_is_failed(requirement) -> None:
    status, reason = judge(requires=requirement)
    assert status == "failed"
    assert reason.startswith(f"requires={requirement!r} is not a requirement like 'package>=2,<3'")


def test_a_requirement_for_other_environments_does_not_count() -> None:
    assert judge(requires="nolibrary>=2; python_version < '3'") == ("apply", "")


def test_an_unknown_environment_marker_is_failed_and_not_blamed_on_when() -> None:
    status, reason = judge(requires="nolibrary; extra == 'npu'")
    assert status in ("failed", "apply")  # packaging before 22 raises, later it is an empty extra
    assert "when" not in reason


def test_a_package_that_is_not_installed_is_skipped() -> None:
    assert judge(requires="nolibrary>=2") == ("skipped", "requires nolibrary>=2, nolibrary is not installed")


def test_a_source_checkout_on_the_path_answers_with_the_version_it_has_loaded(make_package, monkeypatch) -> None:
    make_package({"checkout": "__version__ = '3.1'"})
    assert judge(requires="checkout") == ("apply", "")
    assert judge(requires="checkout>=3")[0] == "skipped"
    module = ModuleType("checkout")
    module.__version__ = "3.1"
    monkeypatch.setitem(sys.modules, "checkout", module)
    assert judge(requires="checkout>=3") == ("apply", "")
    assert judge(requires="checkout>=4") == ("skipped", "requires checkout>=4, found checkout 3.1")


# --- needs, targets ------------------------------------------------------------------------------------------------


class Emulator:
    """A finder that emulates one module, and fails when it is asked to make it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return importlib.machinery.ModuleSpec(name, self) if name == "mx_driving" else None

    def create_module(self, spec: Any) -> Any:
        raise SystemExit("imported")


def test_needs_is_met_by_a_meta_path_finder_without_importing(monkeypatch) -> None:
    reason = "needs module mx_driving, which is neither installed nor emulated here"
    assert judge(needs="mx_driving") == ("skipped", reason)
    monkeypatch.setattr(sys, "meta_path", [Emulator(), *sys.meta_path])
    assert judge(needs="mx_driving") == ("apply", "")
    assert "mx_driving" not in sys.modules


def test_needs_looks_inside_packages_without_importing_them(make_package) -> None:
    make_package({"mmcv": "raise SystemExit('imported')", "mmcv.ops": ""})
    assert judge(needs="mmcv.ops") == ("apply", "")
    assert judge(needs="mmcv.opts")[0] == "skipped"
    assert "mmcv" not in sys.modules


def test_a_target_in_a_library_that_is_not_installed_is_skipped() -> None:
    verdict = Environment().judge(pc.Patch("patch", [pc.Replace("nolibrary.deep:f", len)]))
    assert verdict == ("skipped", "nolibrary is not installed", None)


def test_a_finder_that_raises_fails_the_patch_and_is_not_blamed_on_when(monkeypatch) -> None:
    class Broken:
        def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
            if name == "nolibrary":
                raise RuntimeError("finder is broken")

    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    assert judge(needs="nolibrary") == ("failed", "RuntimeError: finder is broken")


# --- when ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (True, ("apply", "")),
        (False, ("skipped", "its when condition is false")),
        (pc.Skip("no NPU"), ("skipped", "no NPU")),
    ],
)
def test_when_decides(answer, verdict) -> None:
    assert judge(when=lambda: answer) == verdict


@pytest.mark.parametrize("answer", [None, 1, "yes", "no NPU", []])
def test_a_wrong_answer_of_when_is_failed(answer) -> None:
    status, reason = judge(when=lambda: answer)
    assert status == "failed"
    assert reason == f"its when condition returned {answer!r}; expected True, False or Skip('why')"


def test_a_bug_in_when_is_failed_with_the_line_never_skipped() -> None:
    def when() -> bool:
        return {}["missing"]

    status, reason = judge(when=when)
    line = inspect.getsourcelines(when)[1] + 1
    assert (status, reason) == ("failed", f"its when condition raised KeyError: 'missing' ({Path(__file__)}:{line})")


def test_the_line_shown_for_a_bug_in_when_is_its_own_not_a_librarys() -> None:
    import json

    def when() -> bool:
        return bool(json.loads("{"))

    line = inspect.getsourcelines(when)[1] + 1
    assert judge(when=when)[1].endswith(f"({Path(__file__)}:{line})")


def test_a_condition_that_is_an_object_shows_where_it_failed() -> None:
    class When:
        def __call__(self) -> bool:
            raise RuntimeError("broken")

    assert __file__ in judge(when=When())[1]


def test_when_is_not_asked_where_requirements_are_not_met() -> None:
    assert judge(requires="nolibrary", when=lambda: 1 / 0)[0] == "skipped"


def test_an_interrupt_in_when_passes() -> None:
    def when() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        judge(when=when)


def test_metadata_is_read_once_for_a_plan(make_package, monkeypatch) -> None:
    import importlib.metadata

    write_distribution(make_package(EXPLODES), "mmcv-full", "1.7.1", packages=["mmcv"])
    environment = Environment()
    assert environment.unmet("mmcv>=1") is None
    monkeypatch.setattr(importlib.metadata, "distributions", None)
    monkeypatch.setattr(importlib.metadata, "version", None)
    assert environment.unmet("mmcv>=1") is None
    assert environment.unmet("mmcv>=2") == "requires mmcv>=2, found mmcv 1.7.1"
