"""tools/release_sources.py and tools/record_fingerprints.py: what is kept of a download, which releases are meant."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.metadata
import io
import sys
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import patchcore as pc
from patchcore.planning.candidates import Candidate
from patchcore.planning.provenance import Provenance

TOOLS = Path(__file__).resolve().parents[2] / "tools"
FILES = {
    "kit/__init__.py": b"from kit import _C\n",
    "kit/ops/conv.py": b"def conv(x): return x\n",
    "kit/_C.cpython-39-aarch64-linux-gnu.so": b"\x7fELF",
    "kit/data.bin": b"large",
    "other/__init__.py": b"",
}


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The tools as modules, with a cache of their own."""
    monkeypatch.syspath_prepend(str(TOOLS))
    monkeypatch.setenv("PATCHCORE_CACHE", str(tmp_path / "cache"))

    def load(name: str) -> ModuleType:
        for module in ("mmcv_wheel", "release_sources", "record_fingerprints"):
            monkeypatch.delitem(sys.modules, module, raising=False)
        return importlib.import_module(name)

    return load


def wheel(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in FILES.items():
            archive.writestr(name, data)
    return path


def source_distribution(path: Path) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, data in FILES.items():
            entry = tarfile.TarInfo(f"kit-full-1.2/{name}")
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return path


def test_of_a_wheel_the_python_files_are_kept_and_that_there_are_compiled_ones(tools: Any, tmp_path: Path) -> None:
    sources = tools("release_sources")
    made = tmp_path / "made.zip"
    sources._write(made, wheel(tmp_path / "kit_full-1.2-py3-none-any.whl"), "kit", "1.2")
    folder = tmp_path / "site"
    sources.unpack(made, folder)
    kept = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    compiled = f"kit/_C{importlib.machinery.EXTENSION_SUFFIXES[-1]}"
    metadata = ["kit-1.2.dist-info/METADATA", "kit-1.2.dist-info/top_level.txt"]
    assert kept == sorted([*metadata, compiled, "kit/__init__.py", "kit/ops/conv.py"])
    assert (folder / compiled).read_bytes() == b""
    (distribution,) = importlib.metadata.distributions(path=[str(folder)])
    assert (distribution.metadata["Name"], distribution.version) == ("kit", "1.2")


def test_a_source_distribution_has_a_folder_around_it(tools: Any, tmp_path: Path) -> None:
    made = tmp_path / "made.zip"
    tools("release_sources")._write(made, source_distribution(tmp_path / "kit-full-1.2.tar.gz"), "kit", "1.2")
    with zipfile.ZipFile(made) as archive:
        assert archive.read("kit/ops/conv.py") == FILES["kit/ops/conv.py"]
        assert not [name for name in archive.namelist() if name.startswith(("kit-full", "other"))]


def test_what_is_in_the_cache_is_not_downloaded_again(
    tools: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = tools("release_sources")
    downloads: list[str] = []

    def download(distribution: str, version: str, folder: Path) -> Path:
        downloads.append(version)
        return wheel(folder / "kit-1.2-py3-none-any.whl")

    monkeypatch.setattr(sources, "_download", download)
    first = sources.cached_sources("kit-full", "1.2", "kit")
    assert first == sources.cached_sources("kit-full", "1.2", "kit")
    assert downloads == ["1.2"]
    assert [path.name for path in first.parent.iterdir()] == ["kit-full-1.2.zip"]


def test_supported_is_what_the_patches_require(tools: Any) -> None:
    def patch(name: str, target: str, *requires: str) -> Candidate:
        one = pc.Patch(name, pc.Replace(target, len), requires=requires)
        return Candidate(one, Provenance("kit_npu", "kit-npu", "1.0", "kit_npu", None))

    support = tools("record_fingerprints").Support(
        "kit",
        [
            patch("a", "kit:a", "kit>=1.0.0rc6,<1.1", "torch>=2"),
            patch("b", "kit:b", "kit>=1.2,<2"),
            patch("c", "elsewhere:c", "kit>=7"),
        ],
    )
    assert support.plugins == ["kit_npu"]
    meant = {version: support.targets(version) for version in ("1.0.0rc5", "1.0.0rc6", "1.0.1rc1", "1.0", "1.2rc1")}
    assert meant == {
        "1.0.0rc5": set(),
        "1.0.0rc6": {"kit:a"},
        "1.0.1rc1": set(),
        "1.0": {"kit:a"},
        "1.2rc1": set(),
    }
    assert support.targets("1.2.post1") == {"kit:b"}
    assert support.targets("7.0") == set()


def test_a_compiled_module_is_known_to_be_there(tools: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources do not have it: patched targets in it would count as gone."""
    (tmp_path / "mmcv").mkdir()
    (tmp_path / "mmcv" / "__init__.py").touch()
    tools("record_fingerprints").stand_for_compiled(tmp_path, "mmcv")
    found = importlib.machinery.PathFinder.find_spec("mmcv._ext", [str(tmp_path / "mmcv")])
    assert found is not None
    assert isinstance(found.loader, importlib.machinery.ExtensionFileLoader)
    tools("record_fingerprints").stand_for_compiled(tmp_path, "mmdet")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mmcv"]
