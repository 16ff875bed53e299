"""The cache is listed, cleared and kept to its limit; what is in use, being made, or of somebody else, stays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock

import npu_graph.cache
from npu_graph import housekeeping
from npu_graph.cache import BUILT, HIT, LOCK, MANIFEST, Cache, key_of
from npu_graph.housekeeping import limit_size, older_than, remove, stored, vendors_in
from npu_graph.options import CACHE_DIR, CACHE_MAX_MB, cache_limit
from patchcore.cli import main
from patchcore.errors import SettingsError


def put(folder: Path, source: str, vendor: str = "acme", *, days: float = 0, size: int = 1000) -> Path:
    """Make an entry as another process would have, some days ago."""

    def compile(path: Path) -> None:
        (path.parent / "kernel").write_bytes(b"x" * size)

    about = {"vendor": vendor, "lines": ["train.py:3"], "operators": ["aten.add.Tensor"]}
    entry = Cache(folder / vendor).get(key_of(source, {}), "source.txt", source, compile, lambda path: len, about)
    place = entry.source.parent
    npu_graph.cache._LOADED.discard(place)
    used = time.time() - days * 86400
    os.utime(place / MANIFEST, (used, used))
    return place


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process has made nothing yet."""
    monkeypatch.setattr(housekeeping, "_SIZES", {})


def test_an_entry_says_what_it_is(compiler: Any, tmp_path: Path) -> None:
    compiler(lambda x: x.exp() + 1)(torch.ones(3))
    (kernel,) = stored(tmp_path / "kernels")
    assert kernel.vendor == "reference"
    assert kernel.about["operators"] == ["aten.add.Tensor", "aten.exp.default"]
    assert kernel.about["torch"] == torch.__version__
    assert kernel.about["graph"].startswith("subgraph_0 of graph ")
    assert kernel.about["lines"][0].startswith("test_graph_housekeeping.py:")
    assert kernel.about["made"].endswith("+00:00")


def test_entries_are_listed_with_the_least_recently_used_first(tmp_path: Path) -> None:
    new, old, other = put(tmp_path, "a"), put(tmp_path, "b", days=3), put(tmp_path, "c", "bcme", days=1)
    assert [kernel.place for kernel in stored(tmp_path)] == [old, other, new]
    assert [kernel.place for kernel in stored(tmp_path, "acme")] == [old, new]
    assert [kernel.place for kernel in older_than(stored(tmp_path), 2)] == [old]
    assert vendors_in(tmp_path) == ["acme", "bcme"]


def test_what_is_not_the_caches_own_stays(tmp_path: Path) -> None:
    place = put(tmp_path, "a")
    foreign = [
        tmp_path / "README",
        tmp_path / "acme" / "notes.txt",
        tmp_path / "acme" / "models" / ("0" * 64) / "weights.bin",
        place.parent / "notes" / "file",
        tmp_path / "acme" / "zz" / ("0" * 64) / "file",
    ]
    for file in foreign:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("mine")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("mine")
    (tmp_path / "acme" / place.name[:2] / ("f" * 64)).symlink_to(elsewhere)
    assert [kernel.place for kernel in stored(tmp_path)] == [place]
    assert len(remove(tmp_path, stored(tmp_path), leftovers=True).removed) == 1
    assert not place.exists()
    assert all(file.exists() for file in [*foreign, elsewhere / "precious"])


def test_a_manifest_that_cannot_be_read_keeps_nobody_from_listing_and_removing(tmp_path: Path) -> None:
    place = put(tmp_path, "a")
    (place / MANIFEST).write_text("{")
    (kernel,) = stored(tmp_path)
    assert kernel.about == {}
    assert remove(tmp_path, [kernel]).removed == (kernel,)


def test_what_killed_processes_left_is_removed_and_what_is_being_made_is_not(tmp_path: Path) -> None:
    place = put(tmp_path, "a")
    left = place.parent / f"{place.name[:8]}-x1y2z3"
    left.mkdir()
    with FileLock(place.parent / LOCK):  # somebody compiles
        done = remove(tmp_path, stored(tmp_path), leftovers=True)
    assert (done.removed, done.kept, done.remark) == ((), 1, "a process is compiling")
    assert left.exists()
    assert place.exists()
    remove(tmp_path, stored(tmp_path), leftovers=True)
    assert not left.exists()
    assert not place.exists()


def test_over_the_limit_the_least_recently_used_go_and_what_is_loaded_stays(tmp_path: Path) -> None:
    loaded = put(tmp_path, "loaded", days=9)
    cache = Cache(tmp_path / "acme")
    assert cache.get(loaded.name, "source.txt", "loaded", lambda path: None, lambda path: len).outcome == HIT
    used = time.time() - 9 * 86400
    os.utime(loaded / MANIFEST, (used, used))
    places = [put(tmp_path, str(number), days=5 - number) for number in range(5)]
    each = stored(tmp_path)[0].size
    done = limit_size(tmp_path, int(each * 4.5), places[-1])
    assert [kernel.place for kernel in done.removed] == places[:2]
    assert loaded.exists()
    assert all(place.exists() for place in places[2:])


def test_compiling_keeps_to_the_limit(compiler: Any, tmp_path: Path, monkeypatch: Any) -> None:
    old = put(tmp_path / "kernels", "old", days=1, size=50_000)
    monkeypatch.setenv(CACHE_MAX_MB, "0.02")
    compiler(lambda x: x.exp() + 1)(torch.ones(3))
    assert not old.exists()
    assert [kernel.vendor for kernel in stored(tmp_path / "kernels")] == ["reference"]


@pytest.mark.parametrize(
    ("given", "environ", "expected"),
    [
        ({}, {}, 1_000_000_000),
        ({}, {CACHE_MAX_MB: "2.5"}, 2_500_000),
        ({"cache_max_mb": 1}, {CACHE_MAX_MB: "2.5"}, 1_000_000),
        ({}, {CACHE_MAX_MB: "0"}, None),
    ],
)
def test_the_limit_is_in_megabytes(given: Any, environ: Any, expected: Any) -> None:
    assert cache_limit(given, environ) == expected


@pytest.mark.parametrize("text", ["much", "-1", "nan", "inf", "1e305"])
def test_a_limit_that_is_none_is_an_error(text: str) -> None:
    with pytest.raises(SettingsError, match=f"{CACHE_MAX_MB}: expected a number of megabytes"):
        cache_limit({}, {CACHE_MAX_MB: text})


def put_or_hit(folder: Path, source: str) -> str:
    cache = Cache(folder / "acme")
    return cache.get(key_of(source, {}), "source.txt", source, lambda path: None, lambda path: len).outcome


WORKER = """
    import random, sys, time
    from pathlib import Path
    from npu_graph.cache import Cache, key_of
    from npu_graph.housekeeping import limit_size, remove, stored

    folder, seed, task = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    random.seed(seed)
    deadline = time.monotonic() + 1.5

    def compile(path):
        (path.parent / "kernel").write_text(path.read_text() * 100)

    def load(path):
        text = (path.parent / "kernel").read_text()
        assert text == path.read_text() * 100, "half a kernel"
        return lambda: text

    while time.monotonic() < deadline:
        if task == "clear":
            remove(folder, stored(folder), leftovers=True)
            time.sleep(0.01)
            continue
        source = f"kernel {random.randrange(12)};"
        entry = Cache(folder / "acme").get(key_of(source, {}), "source.txt", source, compile, load)
        assert entry.kernel() == source * 100
        if entry.outcome != "hit":
            limit_size(folder, 6000, entry.source.parent)
    print("done")
"""


def test_processes_that_make_clear_and_limit_at_once_agree(tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text(textwrap.dedent(WORKER))
    folder = tmp_path / "kernels"
    tasks = ["make", "make", "clear"]
    workers = [
        subprocess.Popen(
            [sys.executable, str(script), str(folder), str(number), task],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for number, task in enumerate(tasks)
    ]
    for worker in workers:
        out, err = worker.communicate(timeout=900)
        assert out.decode().strip() == "done", err.decode()
    left = {path.name for path in folder.rglob("*") if path.is_dir()} - {"acme"}
    assert {name for name in left if len(name) not in (2, 64)} == set(), "nothing half made is left"
    assert put_or_hit(folder, "kernel 0;") in (HIT, BUILT)


class TestCommand:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        folder = tmp_path / "kernels"  # where the fixtures of this folder have the cache
        put(folder, "a", days=40)
        put(folder, "b")
        put(folder, "c", "bcme")
        return folder

    def test_lists_vendors(self, folder: Path, capsys: Any) -> None:
        assert main(["graph", "cache", "--kernels"]) == 0
        printed = capsys.readouterr().out
        assert printed.startswith(f"{folder}: 3 kernels, ")
        assert "limit 1000.0 MB" in printed.splitlines()[0]
        assert [line.split()[:2] for line in printed.splitlines()[3:5]] == [["acme", "2"], ["bcme", "1"]]
        assert printed.count("train.py:3") == 3

    def test_gives_json(self, folder: Path, capsys: Any) -> None:
        assert main(["graph", "cache", "--vendor", "bcme", "--format", "json"]) == 0
        printed = json.loads(capsys.readouterr().out)
        (kernel,) = printed["kernels"]
        assert (kernel["vendor"], kernel["operators"]) == ("bcme", ["aten.add.Tensor"])
        assert Path(kernel["source"]).read_text() == "c"

    def test_clears_what_is_asked_for(self, folder: Path, capsys: Any) -> None:
        assert main(["graph", "cache", "--clear", "--vendor", "acme", "--older-than", "30"]) == 0
        assert capsys.readouterr().out.startswith("removed 1 kernel, ")
        assert len(stored(folder)) == 2
        assert main(["graph", "cache", "--clear", "--format", "json"]) == 0
        assert len(json.loads(capsys.readouterr().out)["removed"]) == 2
        assert stored(folder) == []

    def test_what_could_not_be_removed_is_a_finding(self, folder: Path, capsys: Any) -> None:
        (kernel,) = stored(folder, "bcme")
        with FileLock(kernel.place.parent / LOCK):
            assert main(["graph", "cache", "--clear"]) == 1
        assert "1 could not be removed: a process is compiling" in capsys.readouterr().out

    def test_a_misspelt_vendor_is_a_usage_error_with_the_nearest(self, folder: Path, capsys: Any) -> None:
        assert main(["graph", "cache", "--vendor", "acne"]) == 2
        assert "did you mean 'acme'?" in capsys.readouterr().err

    @pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs permissions of POSIX")
    def test_a_folder_that_others_can_enter_is_a_finding(self, folder: Path, capsys: Any) -> None:
        (folder / "acme").chmod(0o755)
        assert main(["graph", "cache"]) == 1
        last = capsys.readouterr().out.splitlines()[-1]
        assert last == (
            f"these kernels are not used: others may enter {folder / 'acme'}; change that: chmod 700 "
            f"{folder / 'acme'}, or name another folder: {CACHE_DIR}=~/kernels"
        )
        assert main(["graph", "cache", "--format", "json"]) == 1
        assert json.loads(capsys.readouterr().out)["refused"].startswith("others may enter")
        (folder / "acme").chmod(0o700)
        assert main(["graph", "cache", "--format", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["refused"] is None
