"""Builds the compiled core, once for every build of torch, into a cache folder.

The compiler is called as ``torch.utils.cpp_extension`` (torch 2.13) calls it. That module itself is not used: it needs
setuptools and ninja, and ``load()`` leaves the backend registered in the process that only meant to compile it.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shlex
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Callable

import torch

from npu_emulator.errors import EmulationError
from patchcore.plugin import (
    CompilerError,
    UntrustedPath,
    compiler_jobs,
    counted,
    find_compiler,
    private_folder,
    refuse_shared,
    run_compiler,
    user_cache,
)

__all__ = ["CACHE", "MODULE", "build", "cache_folder", "library_path", "trusted_library"]

#: Environment variable: where libraries are kept.
CACHE = "NPU_EMULATOR_CACHE"
#: Name of the extension module, which the C++ code gets as ``TORCH_EXTENSION_NAME``.
MODULE = "_npu_emulator_native"

_SOURCES = Path(__file__).resolve().parent / "csrc"
_COMPILE_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", f"-DTORCH_EXTENSION_NAME={MODULE}")
_LIBRARIES = ("-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python")


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder where libraries are kept: ``NPU_EMULATOR_CACHE``, else one in the user's cache.

    Args:
        environ: the environment.
    """
    if environ.get(CACHE):
        return Path(environ[CACHE]).expanduser().absolute()
    return user_cache(environ) / "npu-emulator"


def library_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Return where the library for this torch, this Python and these sources is or would be.

    Args:
        environ: the environment.
    """
    return cache_folder(environ) / _key() / f"{MODULE}.so"


def trusted_library(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the library, in a folder that only this user and root can enter: it is code.

    Args:
        environ: the environment.

    Raises:
        EmulationError: others can enter the folder.
    """
    library = library_path(environ)
    try:
        return refuse_shared(library.parent) / library.name
    except UntrustedPath as error:
        raise EmulationError(
            f"npu_emulator: other users could change the compiled core in {library.parent}: {error}, or name "
            f"another folder: {CACHE}=~/npu-emulator"
        ) from error


def build(force: bool = False, report: Callable[[str], None] = print, environ: Mapping[str, str] = os.environ) -> Path:
    """Compile the library, unless it is there.

    It appears in its place only when it is complete, so several processes may build it at once.

    Args:
        force: compile it even if it is there.
        report: called with a line of text for each step.
        environ: the environment: ``CXX`` is the compiler's command, ``MAX_JOBS`` how many may run at once.

    Returns:
        The library.

    Raises:
        EmulationError: this platform is not supported, there is no compiler, or it fails; others can enter the
            folder.
    """
    library = trusted_library(environ)
    if library.is_file() and not force:
        report(f"npu_emulator: the compiled core is built: {library}")
        return library
    _refuse_other_platforms()
    try:
        compiler, jobs = find_compiler(environ), compiler_jobs(environ)
        with _new_folder(cache_folder(environ)) as folder:
            objects = _compile(compiler, folder, report, jobs)
            report("npu_emulator: linking")
            linked = folder / library.name
            torch_libraries = ["-L" + str(Path(torch.__file__).parent / "lib"), *_LIBRARIES]
            run_compiler([*compiler, "-shared", *map(str, objects), *torch_libraries, "-o", str(linked)])
            os.replace(linked, private_folder(library.parent) / library.name)
    except CompilerError as error:
        raise EmulationError(
            f"npu_emulator: {error}\nThe core in Python needs no compiler (NPU_EMULATOR_CORE=python)."
        ) from error
    report(f"npu_emulator: built {library}")
    return library


def _compile(compiler: list[str], folder: Path, report: Callable[[str], None], jobs: int) -> list[Path]:
    sources = sorted(_SOURCES.glob("*.cpp"))
    report(
        f"npu_emulator: compiling {counted(len(sources), 'file')} for torch {torch.__version__} with "
        f"{shlex.join(compiler)}; this takes about a minute"
    )
    objects = [folder / f"{source.stem}.o" for source in sources]
    includes = [f"-isystem{path}" for path in _include_folders()]
    command = [*compiler, *_COMPILE_FLAGS, *includes]
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        running = {
            pool.submit(run_compiler, [*command, "-c", str(source), "-o", str(made)]): source
            for source, made in zip(sources, objects)
        }
        try:
            for number, done in enumerate(as_completed(running), start=1):
                done.result()
                report(f"npu_emulator: [{number}/{len(sources)}] {running[done].name}")
        except CompilerError:
            for waiting in running:
                waiting.cancel()
            raise
    return objects


def _include_folders() -> list[Path]:
    headers = Path(torch.__file__).parent / "include"
    python = Path(sysconfig.get_path("include"))
    if not (python / "Python.h").is_file():
        raise EmulationError(
            f"npu_emulator: expected Python's headers in {python}, found none. Install them (Debian: python3-dev), or "
            "use the core in Python, which needs no compiler."
        )
    return [headers, headers / "torch" / "csrc" / "api" / "include", python]


def _refuse_other_platforms() -> None:
    if not sys.platform.startswith("linux"):
        raise EmulationError(
            f"npu_emulator: the compiled core is for Linux, found {sys.platform}. Use the core in Python."
        )


@contextmanager
def _new_folder(parent: Path) -> Iterator[Path]:
    """Give a folder on the file system of the cache, whose files can therefore be moved there in one step."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="building-", dir=parent))
    except OSError as error:
        raise EmulationError(
            f"npu_emulator: expected to write to {parent}, found: {error}. Name another folder: {CACHE}=~/npu-emulator"
        ) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def _key() -> str:
    """Return a digest of the library's inputs: torch's build, Python's binary interface, our sources and the flags."""
    digest = hashlib.sha256(repr((_COMPILE_FLAGS, _LIBRARIES, torch.version.git_version)).encode())
    for source in sorted(_SOURCES.iterdir()):
        digest.update(source.name.encode())
        digest.update(source.read_bytes())
    return f"torch-{torch.__version__}-{sysconfig.get_config_var('SOABI')}-{digest.hexdigest()[:16]}"
