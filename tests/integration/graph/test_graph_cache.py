"""Kernels on disk: found again by processes and threads, made again when damaged, told apart by what decides them."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from npu_graph.cache import BUILT, HIT, MANIFEST, REBUILT, Cache, key_of
from npu_graph.options import CACHE_DIR

FACTS = {"vendor": "acme", "version": "1", "torch": "2.13"}


class Compiler:
    """Writes the length of the source; counts how often, and fails when told to."""

    def __init__(self) -> None:
        self.calls = 0
        self.error: Exception | None = None

    def compile(self, source: Path) -> None:
        self.calls += 1
        if self.error:
            raise self.error
        (source.parent / "kernel").write_text(str(len(source.read_text())))

    def load(self, source: Path) -> Any:
        length = int((source.parent / "kernel").read_text())
        return lambda: length

    def get(self, folder: Path, source: str = "four") -> Any:
        return Cache(folder).get(key_of(source, FACTS), "source.txt", source, self.compile, self.load)


@pytest.fixture
def made() -> Compiler:
    return Compiler()


def test_a_kernel_is_compiled_once_and_found_again(tmp_path: Path, made: Compiler) -> None:
    first, second = made.get(tmp_path), made.get(tmp_path)
    assert (first.outcome, second.outcome, made.calls) == (BUILT, HIT, 1)
    assert first.kernel() == second.kernel() == 4
    assert second.source.read_text() == "four"


@pytest.mark.parametrize("damage", ["kernel", "source.txt", "manifest.json"])
@pytest.mark.parametrize("how", ["changed", "emptied", "removed"])
def test_an_entry_that_is_damaged_is_made_again(tmp_path: Path, made: Compiler, damage: str, how: str) -> None:
    file = made.get(tmp_path).source.parent / damage
    if how == "removed":
        file.unlink()
    else:
        file.write_text("7" if how == "changed" else "")
    entry = made.get(tmp_path)
    assert (entry.outcome, entry.kernel()) == (REBUILT, 4)
    assert entry.remark
    assert made.get(tmp_path).outcome == HIT


def test_an_entry_that_is_whole_but_cannot_be_loaded_is_made_again(tmp_path: Path, made: Compiler) -> None:
    made.get(tmp_path)
    loads = iter([OSError("built for another machine"), OSError("built for another machine")])

    def load(source: Path) -> Any:
        error = next(loads, None)
        if error:
            raise error
        return made.load(source)

    entry = Cache(tmp_path).get(key_of("four", FACTS), "source.txt", "four", made.compile, load)
    assert (entry.outcome, entry.remark) == (REBUILT, "it could not be loaded: built for another machine")


def test_a_compiler_that_fails_leaves_nothing(tmp_path: Path, made: Compiler) -> None:
    made.error = RuntimeError("syntax")
    with pytest.raises(RuntimeError, match="syntax"):
        made.get(tmp_path)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".lock"] == []
    made.error = None
    assert made.get(tmp_path).outcome == BUILT


@pytest.mark.parametrize("changed", [{"vendor": "other"}, {"version": "2"}, {"torch": "2.14"}], ids=str)
def test_what_decides_a_kernel_is_in_its_key(changed: dict[str, str]) -> None:
    assert key_of("source", FACTS) != key_of("source", {**FACTS, **changed})
    assert key_of("source", FACTS) != key_of("other source", FACTS)
    assert key_of("source", FACTS) == key_of("source", dict(reversed(FACTS.items())))


def test_threads_that_ask_at_once_compile_once(tmp_path: Path, made: Compiler) -> None:
    start = threading.Barrier(8)
    outcomes = []

    def ask() -> None:
        start.wait()
        outcomes.append(made.get(tmp_path).outcome)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [BUILT, *[HIT] * 7]
    assert made.calls == 1


def test_processes_that_ask_at_once_compile_once(tmp_path: Path, run_python: Any) -> None:
    program = """
        import sys, threading
        from concurrent.futures import ProcessPoolExecutor
        from pathlib import Path
        from npu_graph.cache import Cache

        folder = Path({folder!r})

        def compile(source):
            (folder / "calls").open("a").write("x")

        def ask(number):
            return Cache(folder / "cache").get("k" * 8, "source.txt", "text", compile, lambda path: len).outcome

        if __name__ == "__main__":
            with ProcessPoolExecutor(4) as pool:
                print(sorted(pool.map(ask, range(12))), (folder / "calls").read_text())
    """
    import textwrap

    script = tmp_path / "ask.py"
    script.write_text(textwrap.dedent(program.format(folder=str(tmp_path))))
    assert run_python(script).strip() == f"{[BUILT, *[HIT] * 11]} x"


def test_a_graph_that_is_compiled_again_comes_from_the_cache(compiler: Any, reference: Any, monkeypatch: Any) -> None:
    x = torch.randn(4)
    for expected in (BUILT, HIT):
        torch._dynamo.reset()
        compiler(lambda x: x.exp() + 1)(x)
        assert compiler.outcomes[-1] == expected
    monkeypatch.setattr(reference, "version", "2")
    torch._dynamo.reset()
    compiler(lambda x: x.exp() + 1)(x)
    assert compiler.outcomes == [BUILT, HIT, BUILT]


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs permissions of POSIX")
def test_a_changed_kernel_in_a_folder_that_others_may_enter_is_not_run(compiler_of_each: Any, tmp_path: Path) -> None:
    x = torch.rand(4)
    compiler_of_each(lambda x: x.exp() + 1)(x)
    (manifest,) = (tmp_path / "kernels").rglob(MANIFEST)
    about = json.loads(manifest.read_text())
    for name in about["files"]:
        changed = (manifest.parent / name).read_bytes().replace(b"np.exp", b"np.sin")
        (manifest.parent / name).unlink()  # the library is loaded: changed in place, it ends the process at exit
        (manifest.parent / name).write_bytes(changed)
        about["files"][name] = hashlib.sha256(changed).hexdigest()
    manifest.write_text(json.dumps(about))
    folder = manifest.parents[2]
    folder.chmod(0o755)
    torch._dynamo.reset()
    with pytest.raises(Exception, match=f"{CACHE_DIR}=~/kernels") as caught:
        compiler_of_each(lambda x: x.exp() + 1)(x)
    assert f"others may enter {folder}; change that: chmod 700 {folder}; name another" in str(caught.value)
