"""Versions of the mx_driving.patcher API: told from metadata, whatever a package says of itself."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any

import packaging.version  # noqa: F401 - the tests take site-packages away
import pytest
from distributions import write_distribution

from mx_driving_compat import versions as version
from mx_driving_compat.versions import (
    check_version,
    get_version,
    is_mmcv_v1x,
    is_mmcv_v2x,
    mmcv_version,
)
from patchcore.objects.modules import StubSpec


@pytest.fixture
def site(make_package: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like site-packages, in the place of all others; nothing of what tests ask for is loaded or known."""
    folder: Path = make_package({})
    monkeypatch.setattr(sys, "path", [str(folder), *(entry for entry in sys.path if "site-packages" not in entry)])
    for name in [name for name in sys.modules if name.partition(".")[0] in ("mmcv", "mmengine")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(version, "_found", {})
    return folder


# --- where the answer comes from ------------------------------------------------------------------------------------


@pytest.mark.parametrize("distribution", ["mmcv", "mmcv-full", "mmcv-lite"])
def test_mmcv_is_met_by_each_of_its_distributions(site: Path, make_package: Any, distribution: str) -> None:
    make_package({"mmcv": ""})
    write_distribution(site, distribution, "1.7.2", packages=["mmcv"])
    assert get_version("mmcv") == "1.7.2"
    assert is_mmcv_v1x()
    assert not is_mmcv_v2x()


@pytest.mark.parametrize("asked_before", [True, False])
def test_an_overwritten_version_does_not_count(site: Path, make_package: Any, asked_before: bool) -> None:
    make_package({"mmcv": "__version__ = '2.1.0'"})
    write_distribution(site, "mmcv", "2.1.0")
    if asked_before:
        get_version("mmcv")
    importlib.import_module("mmcv").__version__ = "1.7.2"
    assert get_version("mmcv") == "2.1.0"
    assert is_mmcv_v2x()


def test_without_metadata_the_submodule_version_outlives_the_overwriting(site: Path, make_package: Any) -> None:
    make_package({"kit": "from kit.version import __version__", "kit.version": "__version__ = '2.1.0'"})
    importlib.import_module("kit").__version__ = "1.7.2"
    assert get_version("kit") == "2.1.0"


@pytest.mark.parametrize(
    "source",
    ["__version__ = '2.1.0'", "version = '2.1.0'", "VERSION = '2.1.0'", "def version(): return '2.1.0'"],
)
@pytest.mark.parametrize("loaded", [True, False])
def test_a_package_without_metadata_is_asked_itself(site: Path, make_package: Any, source: str, loaded: bool) -> None:
    make_package({"kit": source})
    if loaded:
        importlib.import_module("kit")
    assert get_version("kit") == "2.1.0"


@pytest.mark.parametrize(
    "source",
    [
        "",
        "version = 2",
        "def version(x): return x",
        "import kit.version as version",
        "raise RuntimeError",
        "import absent",
    ],
)
def test_a_package_that_does_not_say_it_or_cannot_be_imported_has_none(
    site: Path, make_package: Any, source: str
) -> None:
    make_package({"kit": source, "kit.version": ""})
    assert get_version("kit") is None
    assert not check_version("kit")


def test_a_stub_has_no_version(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub = types.ModuleType("kit")
    stub.__spec__ = StubSpec("kit", None)
    stub.__version__ = "2.1.0"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "kit", stub)
    assert get_version("kit") is None


# --- nothing is remembered that can become wrong --------------------------------------------------------------------


# --- comparing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "major", "minor"),
    [
        ("2.1.0", 2, 1),
        ("2.1.0+cu118", 2, 1),
        ("1.7.0.post1", 1, 7),
        ("2.0.0rc4", 2, 0),
        ("2", 2, 0),
        ("v2.1", 2, 1),
        ("2.3-custom-build", 2, 3),
        ("2.x-dev", 2, None),
    ],
)
def test_major_and_minor_version_are_compared(site: Path, make_package: Any, text: str, major: int, minor: Any) -> None:
    make_package({"kit": f"__version__ = {text!r}"})
    assert check_version("kit")
    assert check_version("kit", major=major)
    assert not check_version("kit", major=major + 1)
    assert not check_version("kit", major=major, minor=9)
    if minor is not None:
        assert check_version("kit", major=major, minor=minor)
        assert check_version("kit", minor=minor)
        assert not check_version("kit", major=major + 1, minor=minor)


def test_a_version_without_a_number_fits_nothing(site: Path, make_package: Any) -> None:
    make_package({"kit": "__version__ = 'unknown'"})
    assert get_version("kit") == "unknown"
    assert not check_version("kit")


def test_mmcv_version_is_an_object_that_looks_it_up(site: Path, make_package: Any) -> None:
    assert not mmcv_version
    assert repr(mmcv_version) == "MMCVVersion(version=None, is_v1x=False, is_v2x=False)"
    make_package({"mmcv": "", "mmengine": "__version__ = '0.10'"})
    write_distribution(site, "mmcv", "2.1.0")
    assert mmcv_version
    assert mmcv_version() == mmcv_version.version == "2.1.0"
    assert (mmcv_version.is_v1x, mmcv_version.is_v2x) == (False, True)
    assert (mmcv_version.has_mmcv, mmcv_version.available, mmcv_version.has_mmengine) == (True, True, True)
    assert repr(mmcv_version) == "MMCVVersion(version='2.1.0', is_v1x=False, is_v2x=True)"
