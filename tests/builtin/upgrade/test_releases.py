"""Wheels and source distributions of strangers: only Python files are written, only below the folder."""

from __future__ import annotations

import io
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from patchcore.builtin.upgrade import releases
from patchcore.builtin.upgrade.releases import get_release
from patchcore.errors import SettingsError


def write_wheel(path: Path, files: Mapping[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return path


def write_sdist(path: Path, files: Mapping[str, str], *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as sdist:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            sdist.addfile(info, io.BytesIO(text.encode()))
        for member in members:
            sdist.addfile(member)
    return path


def written(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_wheel_has_its_packages_and_modules(tmp_path: Path) -> None:
    files = {
        "shop/__init__.py": "",
        "shop/_c.cpython-39-x86_64-linux-gnu.so": "machine code",
        "shop/data.bin": "large",
        "till.py": "",
        "shop-1.0.data/purelib/more/__init__.py": "",
        "shop-1.0.dist-info/METADATA": "",
    }
    found = get_release(str(write_wheel(tmp_path / "shop-1.0+cpu-py3-none-any.whl", files)), tmp_path / "in")
    assert (found.name, found.version) == ("shop", "1.0")
    assert sorted(found.trees) == ["more", "shop", "till"]
    tree = found.trees["shop"]
    assert [name for name in written(tree) if name.endswith(".py")] == [
        "more/__init__.py",
        "shop/__init__.py",
        "till.py",
    ]
    (compiled,) = tree.rglob("_c*")
    assert compiled.read_bytes() == b""
    assert not list(tree.rglob("*.bin"))


@pytest.mark.parametrize("layout", ["", "src/", "python/"])
def test_an_sdist_has_its_packages_in_a_folder(tmp_path: Path, layout: str) -> None:
    files = {"shop-1.0/setup.py": "raise SystemExit", f"shop-1.0/{layout}shop/core/__init__.py": ""}
    archive = write_sdist(tmp_path / "shop-1.0.tar.gz", {**files, f"shop-1.0/{layout}shop/__init__.py": ""})
    found = get_release(str(archive), tmp_path / "in")
    assert (found.trees["shop"] / "shop" / "core" / "__init__.py").is_file()
    assert "src" not in found.trees


@pytest.mark.parametrize(
    "name", ["../evil.py", "shop/../../evil.py", "/tmp/evil.py", "..\\evil.py", "C:evil.py", "shop/../evil.py"]
)
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_a_name_outside_is_refused_and_nothing_is_written_there(tmp_path: Path, name: str, kind: str) -> None:
    if kind == "wheel":
        archive = write_wheel(tmp_path / "shop-1.0-py3-none-any.whl", {"shop/__init__.py": "", name: "evil"})
    else:
        inside = name if name.startswith(("/", "..")) else f"shop-1.0/{name}"
        archive = write_sdist(tmp_path / "shop-1.0.tar.gz", {"shop-1.0/shop/__init__.py": "", inside: "evil"})
    folder = tmp_path / "deep" / "in"
    with pytest.raises(SettingsError, match="not safe to unpack"):
        get_release(str(archive), folder)
    assert not list(tmp_path.rglob("*evil*"))


def test_links_and_devices_are_not_unpacked(tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text("password = 1")
    link, pipe = tarfile.TarInfo("shop-1.0/shop/link.py"), tarfile.TarInfo("shop-1.0/shop/pipe.py")
    link.type, link.linkname, pipe.type = tarfile.SYMTYPE, str(tmp_path / "secret.py"), tarfile.FIFOTYPE
    folder = tarfile.TarInfo("shop-1.0/shop/sub")
    folder.type, folder.linkname = tarfile.SYMTYPE, str(tmp_path)
    files = {"shop-1.0/shop/__init__.py": ""}
    archive = write_sdist(tmp_path / "shop-1.0.tar.gz", files, link, pipe, folder)
    found = get_release(str(archive), tmp_path / "in")
    assert written(found.trees["shop"]) == ["shop/__init__.py"]


def test_a_file_below_a_link_of_the_archive_stays_inside(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    with tarfile.open(tmp_path / "shop-1.0.tar.gz", "w:gz") as sdist:
        link = tarfile.TarInfo("shop-1.0/shop")
        link.type, link.linkname = tarfile.SYMTYPE, str(outside)
        sdist.addfile(link)
        info = tarfile.TarInfo("shop-1.0/shop/__init__.py")
        sdist.addfile(info, io.BytesIO(b""))
    get_release(str(tmp_path / "shop-1.0.tar.gz"), tmp_path / "in")
    assert not list(outside.iterdir())


@pytest.mark.parametrize(("limit", "value"), [("_LARGEST_FILE", 99), ("_LARGEST_RELEASE", 150), ("_MOST_FILES", 2)])
def test_an_archive_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(releases, limit, value)
    files = {f"shop/m{number}.py": "x = 1" + " " * 95 for number in range(3)}
    archive = write_wheel(tmp_path / "shop-1.0-py3-none-any.whl", files)
    with pytest.raises(SettingsError, match="too large to be the sources of a library"):
        get_release(str(archive), tmp_path / "in")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("shop-1.0-py3-none-any.whl", b"PK\x03\x04 torn", "cannot be unpacked"),
        ("shop-1.0.tar.gz", b"\x1f\x8b torn", "cannot be unpacked"),
        ("shop.whl", b"", "no name of a wheel or sdist"),
    ],
)
def test_a_file_that_is_no_archive(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SettingsError, match=message):
        get_release(str(tmp_path / name), tmp_path / "in")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("shop>=1", "expected one version"),
        ("shop", "expected one version"),
        ("shop @ https://shop.example/shop.whl", "expected NAME==VERSION|no such file"),
        ("no-such-file.whl", "there is no such file"),
        ("a b c", "expected NAME==VERSION"),
        ("--index-url=https://shop.example", "expected NAME==VERSION|no such file"),
    ],
)
def test_an_argument_that_names_no_release(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        get_release(text, tmp_path)


def test_pip_downloads_a_wheel_from_the_index_that_it_is_set_up_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index"
    index.mkdir()
    metadata = {
        "shop-1.5.dist-info/METADATA": "Metadata-Version: 2.1\nName: shop\nVersion: 1.5\n",
        "shop-1.5.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "shop-1.5.dist-info/RECORD": "",
    }
    write_wheel(index / "shop-1.5-py3-none-any.whl", {"shop/__init__.py": "", **metadata})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    found = get_release("shop==1.5", tmp_path / "in")
    assert (found.version, list(found.trees)) == ("1.5", ["shop"])
    with pytest.raises(SettingsError, match=r"shop==1\.6: pip finds no wheel.*--build"):
        get_release("shop==1.6", tmp_path / "other")


def test_a_source_distribution_is_downloaded_only_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []

    def run(command: list[str], **options: Any) -> Any:
        calls.append(command)
        return type("Done", (), {"returncode": 1, "stderr": "ERROR: no such thing"})

    monkeypatch.setattr(releases.subprocess, "run", run)
    for build in (False, True):
        calls.clear()
        with pytest.raises(SettingsError, match="no such thing"):
            get_release("shop==1.0", tmp_path, build=build)
        assert any("--no-binary=:all:" in command for command in calls) == build
        assert all(command[0] == sys.executable for command in calls)
