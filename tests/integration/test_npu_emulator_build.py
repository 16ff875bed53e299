"""Building the compiled core of the emulated NPU, and doing without it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Callable

import pytest
from warm import Warm

pytest.importorskip("torch")
build = pytest.importorskip("npu_emulator.device.native.build")

from npu_emulator.__main__ import main  # noqa: E402

Run = Callable[..., "subprocess.CompletedProcess[str]"]

#: Leaves an empty file where a compiler leaves its result, and a line for each call beside itself.
COMPILER = """#!/bin/sh
echo "$@" >> "$0.calls"
while [ "$1" != "-o" ]; do shift; done
: > "$2"
"""


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def compiler(tmp_path: Path) -> Path:
    """A program that takes a compiler's arguments and is done at once."""
    path = tmp_path / "compiler"
    path.write_text(COMPILER)
    path.chmod(0o755)
    return path


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warm]:
    """A process that has imported torch."""
    with Warm(tmp_path_factory.mktemp("warm"), "import torch\n") as warm:
        yield warm


@pytest.fixture
def python(warm: Warm, cache: Path, tmp_path: Path) -> Run:
    """Run code in a process that has torch and nothing of the emulator, with a cache of its own."""

    def run(code: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return warm.run(code, cwd=tmp_path, **{"NPU_EMULATOR_CORE": "auto", build.CACHE: str(cache), **environ})

    return run


@pytest.fixture
def fresh_python(cache: Path) -> Run:
    """Run code in a process that has not imported torch, with a cache of its own."""

    def run(code: str) -> subprocess.CompletedProcess[str]:
        environ = {**os.environ, "NPU_EMULATOR_CORE": "auto", build.CACHE: str(cache)}
        return subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=900)

    return run


@pytest.fixture
def command(cache: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Do what ``python -m npu_emulator`` does with a cache of its own, in this process, which has torch already."""

    def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        with monkeypatch.context() as changed:
            for name, value in {"NPU_EMULATOR_CORE": "auto", build.CACHE: str(cache), **environ}.items():
                changed.setenv(name, value)
            capfd.readouterr()
            code = main(arguments)
        return subprocess.CompletedProcess(arguments, code, *capfd.readouterr())

    return run


def libraries(cache: Path) -> list[Path]:
    return list(cache.rglob("*.so"))


class TestCacheFolder:
    @pytest.mark.parametrize(
        ("environ", "expected"),
        [
            ({"NPU_EMULATOR_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, "/a"),
            ({"XDG_CACHE_HOME": "/b"}, "/b/npu-emulator"),
            ({"XDG_CACHE_HOME": "relative"}, "~/.cache/npu-emulator"),
            ({}, "~/.cache/npu-emulator"),
        ],
        ids=["named", "of the user", "of the user but relative", "default"],
    )
    def test_where_it_is(self, environ: dict[str, str], expected: str) -> None:
        assert build.cache_folder(environ) == Path(expected).expanduser()

    def test_a_library_is_for_one_torch_one_python_and_one_state_of_the_sources(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import torch

        paths = [build.library_path({})]
        sources = tmp_path / "csrc"
        shutil.copytree(build._SOURCES, sources)
        (sources / "device.h").write_text("// changed\n")
        monkeypatch.setattr(build, "_SOURCES", sources)
        build._key.cache_clear()
        paths.append(build.library_path({}))
        monkeypatch.setattr(torch.version, "git_version", "another")
        build._key.cache_clear()
        paths.append(build.library_path({}))
        build._key.cache_clear()
        assert len(set(paths)) == 3
        assert all(f"torch-{torch.__version__}-" in str(path) for path in paths)


class TestBuild:
    def test_it_compiles_every_source_once(self, command: Run, cache: Path, compiler: Path) -> None:
        done = command("build", CXX=f"{compiler} --flag", MAX_JOBS="1")
        assert done.returncode == 0, done.stderr
        (library,) = libraries(cache)
        assert done.stdout.splitlines()[-1] == f"npu_emulator: built {library}"
        calls = Path(f"{compiler}.calls").read_text().splitlines()
        assert len(calls) == len(list(build._SOURCES.glob("*.cpp"))) + 1
        assert all(call.startswith("--flag ") for call in calls)
        again = command("build", CXX="no-such-compiler")
        assert (again.returncode, again.stdout) == (0, f"npu_emulator: the compiled core is built: {library}\n")

    def test_force_compiles_again(self, command: Run, cache: Path, compiler: Path) -> None:
        command("build", CXX=str(compiler))
        before = libraries(cache)[0].stat().st_ino
        command("build", "--force", CXX=str(compiler))
        assert libraries(cache)[0].stat().st_ino != before

    def test_two_at_once_leave_one_library_and_nothing_else(self, cache: Path, compiler: Path) -> None:
        environ = {**os.environ, build.CACHE: str(cache), "CXX": str(compiler)}
        arguments = [sys.executable, "-m", "npu_emulator", "build"]
        both = [subprocess.Popen(arguments, env=environ, stdout=subprocess.DEVNULL) for _ in range(2)]
        assert [process.wait(timeout=900) for process in both] == [0, 0]
        assert [path for path in cache.rglob("*") if path.is_file()] == libraries(cache)
        assert len(list(cache.iterdir())) == 1

    def test_no_compiler(self, command: Run) -> None:
        done = command("build", CXX="no-such-compiler -O3")
        assert done.returncode == 1
        assert "expected a C++ compiler, found no no-such-compiler -O3; install one (Debian: g++)" in done.stderr

    def test_a_compiler_that_fails(self, command: Run, cache: Path, compiler: Path) -> None:
        compiler.write_text("#!/bin/sh\necho it is broken >&2\nexit 3\n")
        done = command("build", CXX=str(compiler))
        assert done.returncode == 1
        assert "failed with code 3" in done.stderr
        assert "\nit is broken\n" in done.stderr
        assert not list(cache.iterdir())

    def test_a_cache_that_cannot_be_written(self, command: Run, tmp_path: Path, compiler: Path) -> None:
        (tmp_path / "file").touch()
        done = command("build", CXX=str(compiler), **{build.CACHE: str(tmp_path / "file")})
        assert done.returncode == 1
        assert f"expected to write to {tmp_path / 'file'}" in done.stderr


START = (
    "import logging, npu_emulator; logging.basicConfig(); npu_emulator.install(); import torch; "
    "from npu_emulator.device import active; print(active().name, torch.ones(2, device='npu').sum().item())"
)


class TestNotBuilt:
    def test_the_core_in_python_is_used(self, python: Run, command: Run) -> None:
        assert "core     python (the compiled core is not built for this torch" in command("info").stdout
        done = python(START)
        assert (done.stdout, done.stderr) == ("python 2.0\n", "")

    def test_asking_for_it_is_an_error(self, python: Run, command: Run) -> None:
        for done in (command("info", NPU_EMULATOR_CORE="native"), python(START, NPU_EMULATOR_CORE="native")):
            assert done.returncode == 1
            assert "Build it with `python -m npu_emulator build`" in done.stderr


class TestDoesNotLoad:
    @pytest.fixture(autouse=True)
    def broken(self, command: Run, compiler: Path) -> None:
        """Have a library that is none."""
        assert command("build", CXX=str(compiler)).returncode == 0

    def test_the_core_in_python_is_used_and_the_log_says_why(
        self, python: Run, fresh_python: Run, command: Run
    ) -> None:
        for done in (python(START), fresh_python(START)):
            assert done.stdout == "python 2.0\n"
            assert "WARNING:npu_emulator:" in done.stderr
            assert "does not load" in done.stderr
        assert "core     python (" in command("info").stdout

    def test_asking_for_it_is_an_error(self, python: Run) -> None:
        done = python(START, NPU_EMULATOR_CORE="native")
        assert done.returncode == 1
        assert "does not load" in done.stderr
        assert "`python -m npu_emulator build --force`" in done.stderr


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs permissions of POSIX")
class TestOthersCanEnterTheFolder:
    """A library is code: one that somebody else may have put there or changed is not loaded."""

    @pytest.fixture
    def shared(self, command: Run, compiler: Path, cache: Path) -> Path:
        """The folder of a library, which others may enter."""
        assert command("build", CXX=str(compiler)).returncode == 0
        (library,) = libraries(cache)
        library.parent.chmod(0o755)
        return library.parent

    def test_it_is_not_loaded_and_the_log_has_the_line_that_fixes_it(self, python: Run, shared: Path) -> None:
        done = python(START)
        assert done.stdout == "python 2.0\n"
        assert f"others may enter {shared}; change that: chmod 700 {shared}, or name another" in done.stderr
        assert "does not load" not in done.stderr  # nobody has tried

    def test_asking_for_it_is_an_error(self, python: Run, command: Run, compiler: Path, shared: Path) -> None:
        building = command("build", "--force", CXX=str(compiler))
        for done in (python(START, NPU_EMULATOR_CORE="native"), command("build"), building):
            assert done.returncode == 1
            assert f"others may enter {shared}" in done.stderr
        assert f"others may enter {shared}" in command("info").stdout


@pytest.mark.skipif(not shutil.which("c++"), reason="no C++ compiler is on PATH; install one: apt-get install g++")
def test_what_is_built_is_used() -> None:
    """In the user's own cache, where it is built once: compiling it takes a minute or two."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environ = {**os.environ, "NPU_EMULATOR_CORE": "auto"}
        return subprocess.run([sys.executable, *arguments], env=environ, capture_output=True, text=True, timeout=900)

    done = run("-m", "npu_emulator", "build")
    assert done.returncode == 0, done.stderr
    assert "core     native (built for this torch)" in run("-m", "npu_emulator", "info").stdout
    started = run("-c", START)
    assert (started.stdout, started.stderr) == ("native 2.0\n", "")
