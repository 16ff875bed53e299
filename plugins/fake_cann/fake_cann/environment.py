"""Prepares the environment of a process so that it finds the libraries, and refuses a real CANN."""

from __future__ import annotations

import ctypes
import importlib.abc
import os
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Optional

from fake_cann.build import EMPTY, build, is_built, is_fake, libraries, release_of_torch
from fake_cann.errors import FakeCannError, RealCannError
from fake_cann.wheel import library, package_of, torch_npu_version
from fake_cann_startup import AUTOLOAD, HOMES, NO_CANN
from fake_cann_startup.inductor import AfterInductor
from patchcore import install_command

__all__ = ["finds_libraries", "install", "is_installed", "prepare", "refuse_missing", "refuse_real_cann"]

_installed = False

#: The libraries, each behind those that it needs.
_IN_ORDER = ("libascendcl", "libhccl", *EMPTY, "libopapi")

_SEARCHED = "LD_LIBRARY_PATH"
#: Where devices draw random numbers from: generators of their own, or that of the CPU. With the second, a program draws
#: the numbers that it draws on the CPU, so that two runs can be compared.
_RANDOM, _SOURCES = "FAKE_CANN_RANDOM", ("device", "cpu")
_DRIVER = Path("/usr/local/Ascend/driver")
_DEVICES = Path("/dev/davinci_manager")


def refuse_real_cann(environ: Mapping[str, str] = os.environ) -> None:
    """Raise where there is a real CANN or a real NPU: nothing may hide it.

    Args:
        environ: the environment.

    Raises:
        RealCannError: it is there.
    """
    found = [f"{name}={environ[name]}" for name in HOMES if environ.get(name)]
    found += [str(path) for path in (_DRIVER, _DEVICES) if path.exists()]
    for folder in environ.get(_SEARCHED, "").split(os.pathsep):
        if folder and Path(folder, "libascendcl.so").exists() and not is_fake(Path(folder)):
            found.append(folder)
    if found:
        raise RealCannError(f"fake_cann: a real CANN is here ({', '.join(found)}): a fake one must not hide it")


def finds_libraries(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether a process of this environment finds the libraries by itself. Without torch it has none.

    Args:
        environ: the environment.
    """
    try:
        return str(libraries(environ)) in environ.get(_SEARCHED, "").split(os.pathsep)
    except FakeCannError:
        return False


def refuse_missing(environ: Mapping[str, str] = os.environ) -> None:
    """Raise where there is no torch_npu that can run on the fake CANN, or where there is a real CANN.

    Args:
        environ: the environment.

    Raises:
        FakeCannError: torch or torch_npu is missing, torch_npu is for another torch and would end the process at its
            import, or a real CANN is here.
    """
    refuse_real_cann(environ)
    torch = release_of_torch()
    fitting = install_command(f"torch=={torch}", f"torch_npu=={torch}.*")
    try:
        found = torch_npu_version() if library().exists() else None  # an imitation of torch_npu has no library
    except FakeCannError:
        found = None
    if found is None:
        raise FakeCannError(f"fake_cann: expected torch_npu for torch {torch}, found none: {fitting}")
    if found.split(".")[:3] != torch.split(".")[:3]:
        raise FakeCannError(f"fake_cann: expected torch_npu for torch {torch}, found torch_npu {found}: {fitting}")


def prepare(environ: MutableMapping[str, str]) -> Path:
    """Build the libraries if they are not there, and change an environment so that a process finds them.

    torch loads torch_npu in every process that imports torch. The queue of torch_npu is off unless it was chosen: with
    it, an operator that fails raises nothing at its line, and the operators after it return undefined values.

    Args:
        environ: the environment of processes to start.

    Returns:
        The folder of the libraries.

    Raises:
        FakeCannError: see :func:`refuse_real_cann` and :func:`fake_cann.build.build`; torch_npu is not installed, or is
            for another torch; ``FAKE_CANN_RANDOM`` is neither ``device`` nor ``cpu``.
    """
    refuse_missing(environ)
    source = environ.get(_RANDOM) or _SOURCES[0]
    if source not in _SOURCES:
        raise FakeCannError(f"fake_cann: {_RANDOM} is one of {', '.join(_SOURCES)}, found {source!r}")
    folder = build(report=_to_stderr, environ=environ)
    if not finds_libraries(environ):
        environ[_SEARCHED] = os.pathsep.join(filter(None, (str(folder), environ.get(_SEARCHED, ""))))
    environ.setdefault("TASK_QUEUE_ENABLE", "0")
    if environ.get(AUTOLOAD) == NO_CANN:
        del environ[AUTOLOAD]
    return folder


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # stdout is the program's


def install() -> None:
    """Let this process and its children import torch_npu; call it before ``import torch``.

    The loader reads its search path when a process starts, so the libraries are loaded here, and torch_npu finds them
    by their names. Children find them by themselves.

    Raises:
        FakeCannError: see :func:`prepare`.
    """
    global _installed
    found = finds_libraries() and is_built()
    folder = prepare(os.environ)
    _installed = True
    if found:
        return
    # The libraries name those of torch, which need not be loaded yet, without their folder.
    ctypes.CDLL(str(package_of("torch") / "lib" / "libtorch_cpu.so"), ctypes.RTLD_GLOBAL)
    loaded = [ctypes.CDLL(str(folder / f"{name}.so"), ctypes.RTLD_GLOBAL) for name in _IN_ORDER]
    sys.meta_path[:0] = [_BeforeTorchNpu(loaded[0]), AfterInductor()]


class _BeforeTorchNpu(importlib.abc.MetaPathFinder):
    """Calls the runtime as soon as torch_npu is imported, which a CUDA build of torch needs; finds nothing itself.

    In children the loader does that: there the runtime is loaded as a part of torch_npu's import.

    Args:
        runtime: the library ``libascendcl``.
    """

    def __init__(self, runtime: ctypes.CDLL) -> None:
        self._runtime = runtime

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> None:
        """Return nothing; at the first import of torch_npu, call the runtime."""
        if fullname == "torch_npu._C":
            sys.meta_path.remove(self)
            self._runtime.fake_cann_before_torch_npu()


def is_installed() -> bool:
    """Return whether :func:`install` was called in this process."""
    return _installed
