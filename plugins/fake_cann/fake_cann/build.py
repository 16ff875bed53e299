"""Compile the libraries, once for every release of torch, into a cache folder outside the checkout.

A wheel of fake-cann may have them compiled already, in the folder ``prebuilt`` beside this module. They serve as long
as they were made from the sources that are here, for the release of torch that is installed.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable

from fake_cann.errors import FakeCannError
from fake_cann.table import REFUSED, SIGNATURES, TABLE, Operator, computed, refused, signatures
from fake_cann.wheel import package_of
from fake_cann_startup import MADE_FROM
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
    write_whole,
)

__all__ = ["CACHE", "EMPTY", "RECORDER", "TRIED", "build", "build_into", "is_built", "is_fake", "libraries"]

#: Environment variable: where libraries are kept.
CACHE = "FAKE_CANN_CACHE"

#: Folder in that of the libraries: a ``libopapi.so`` with all names whose arguments are known. It checks calls of those
#: that are not computed, and refuses them.
RECORDER = "recorder"

#: Releases of torch, each with the torch_npu of the same version, with which the libraries were tried.
TRIED = ("2.13.0", "2.14.0")

_SOURCES = Path(__file__).resolve().parent / "csrc"
#: What a wheel brings: a folder of libraries for each release of torch.
_PREBUILT = _SOURCES.with_name("prebuilt")
_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall")
#: Each library of CANN that has functions of its own, and the folder of its sources.
_WITH_SOURCES = {"libascendcl": "runtime", "libhccl": "collectives", "libopapi": "operators"}
#: By processor, the instructions of an operator's first function, which load its index and jump, and of its second.
_ENTRIES = {
    "x86_64": ("movl ${}, %r11d; jmp fake_cann_enter", "jmp fake_cann_execute"),
    "aarch64": ("mov w9, #{}; b fake_cann_enter", "b fake_cann_execute"),
}
#: Libraries that torch_npu names and needs nothing of.
EMPTY = (
    "libacl_op_compiler",
    "libge_runner",
    "libgraph",
    "libfmk_parser",
    "libascend_protobuf",
    "libacl_tdt_channel",
    "libascend_dump",
    "libnnopbase",
    "libascend_ml",
    "libascend_hal",
    "libmsprofiler",
    "libms_tools_ext",
    "libhcomm",
)


def libraries(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder where the libraries for the installed torch are or would be.

    Args:
        environ: the environment.

    Raises:
        FakeCannError: torch is not installed, or others can enter the folder: it is for code.
    """
    prebuilt = _PREBUILT / release_of_torch()
    if _key_of(prebuilt) == _key():
        return prebuilt
    cache = _cache(environ)
    try:
        return refuse_shared(cache / "libraries" / _key())
    except UntrustedPath as error:
        raise FakeCannError(f"fake_cann: {error}, or name another folder: {CACHE}=~/fake-cann") from error


def is_built(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether the libraries are there.

    Args:
        environ: the environment.
    """
    return (libraries(environ) / "libopapi.so").is_file()


def is_fake(folder: Path) -> bool:
    """Return whether a folder has libraries of a fake CANN, for whichever torch and from whichever sources.

    Args:
        folder: to look at.
    """
    return (folder / MADE_FROM).is_file()


def release_of_torch() -> str:
    """Return the version of the installed torch, not imported: ``2.13.0`` for ``2.13.0+cpu`` and ``2.13.0+cu130``.

    A build that is no release keeps its whole version.

    Raises:
        FakeCannError: torch is not installed, or its version cannot be read.
    """
    file = package_of("torch") / "version.py"
    found = re.search(r"""^__version__ = ['"]([^'"]+)""", file.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise FakeCannError(f"fake_cann: expected __version__ of torch, found none in {file}")
    version = found[1]
    release = version.partition("+")[0]
    return release if re.fullmatch(r"[0-9.]+", release) else version


def build(force: bool = False, report: Callable[[str], None] = print, environ: Mapping[str, str] = os.environ) -> Path:
    """Compile the libraries, unless they are there.

    The folder appears only when it is complete, so several processes may build it at once.

    Args:
        force: compile them even if they are there.
        report: called with a line of text for each step.
        environ: the environment: ``CXX`` is the compiler's command, ``MAX_JOBS`` how many may run at once.

    Returns:
        The folder.

    Raises:
        FakeCannError: this platform is not supported, torch is not installed, there is no compiler, or it fails; with
            ``force``, that the libraries came with the wheel.
    """
    folder = libraries(environ)
    if is_built(environ) and not force:
        return folder
    if folder.parent == _PREBUILT:
        raise FakeCannError(f"fake_cann: {folder} came with the wheel of fake-cann; install fake-cann again instead")
    if release_of_torch() not in TRIED:
        report(f"fake_cann: tried with torch {' and '.join(TRIED)}, not with torch {release_of_torch()}, found here")
    _build(folder, force, report, environ)
    return folder


def build_into(folder: Path, report: Callable[[str], None] = print, environ: Mapping[str, str] = os.environ) -> Path:
    """Compile the libraries for a wheel, into a folder of the name of torch's release.

    Args:
        folder: where that folder is made; one that is there is replaced.
        report: called with a line of text for each step.
        environ: see :func:`build`.

    Returns:
        The folder of the libraries.

    Raises:
        FakeCannError: see :func:`build`.
    """
    made = folder.absolute() / release_of_torch()
    _build(made, True, report, environ)
    return made


def _build(folder: Path, force: bool, report: Callable[[str], None], environ: Mapping[str, str]) -> None:
    if not sys.platform.startswith("linux") or platform.machine() not in _ENTRIES:
        raise FakeCannError(
            f"fake_cann is for Linux on {' and '.join(_ENTRIES)}, found {sys.platform} on {platform.machine()}"
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        new = private_folder(Path(tempfile.mkdtemp(prefix="building-", dir=folder.parent)))
    except OSError as error:
        raise FakeCannError(
            f"fake_cann: expected to write to {folder.parent}, found: {error}. Name another folder: {CACHE}=~/fake-cann"
        ) from error
    try:
        _compile(new, report, environ)
        write_whole(new / MADE_FROM, f"{_key()}\n")
        if force:
            shutil.rmtree(folder, ignore_errors=True)
        try:
            os.replace(new, folder)
        except OSError:
            if not (folder / "libopapi.so").is_file():  # else another process was faster
                raise
    except CompilerError as error:
        raise FakeCannError(f"fake_cann: {error}") from error
    finally:
        shutil.rmtree(new, ignore_errors=True)
    report(f"fake_cann: built {folder}")


def _cache(environ: Mapping[str, str]) -> Path:
    return Path(environ[CACHE]).expanduser().absolute() if environ.get(CACHE) else user_cache(environ) / "fake-cann"


def _key_of(folder: Path) -> str:
    """Return the key of the libraries in a folder, empty if it has none."""
    try:
        return (folder / MADE_FROM).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _compile(folder: Path, report: Callable[[str], None], environ: Mapping[str, str]) -> None:
    compiler, jobs = find_compiler(environ), compiler_jobs(environ)
    torch = package_of("torch")
    sources = sorted(_SOURCES.glob("*/*.cpp"))
    report(
        f"fake_cann: compiling {counted(len(sources), 'file')} for torch in {torch} with {shlex.join(compiler)}; "
        "this takes some minutes, once"
    )
    includes = [f"-isystem{torch / 'include'}", f"-isystem{torch / 'include/torch/csrc/api/include'}"]
    kept = private_folder(_cache(environ) / "objects")
    objects = {source: kept / f"{source.stem}-{_object_key(compiler, source)}.o" for source in sources}

    def compile_one(source: Path) -> None:
        made = objects[source]
        if made.is_file():
            return
        used = includes if source.parent.name == "operators" else []
        new = folder / made.name
        run_compiler([*compiler, *_FLAGS, *used, "-c", str(source), "-o", str(new)])
        os.replace(new, made)
        report(f"fake_cann: compiled {source.parent.name}/{source.name}")

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(compile_one, sources))
    link = [*compiler, "-shared", f"-L{folder}"]
    # torch's libraries are loaded first, so their names are enough: the libraries serve wherever torch is.
    of_torch = [f"-L{torch / 'lib'}", "-ltorch_cpu", "-lc10"]
    private_folder(folder / RECORDER)
    for library, into, operators in (
        ("libascendcl", folder, None),
        ("libhccl", folder, None),
        ("libopapi", folder, _with(refused())),
        ("libopapi", folder / RECORDER, _with(signatures())),
    ):
        made = [str(path) for source, path in objects.items() if source.parent.name == _WITH_SOURCES[library]]
        needed = [] if library == "libascendcl" else ["-lascendcl", "-lrt", "-pthread"]
        if operators is not None:
            entries = into / "entries.s"
            write_whole(entries, _entries(operators))
            run_compiler([*compiler, "-c", str(entries), "-o", str(into / "entries.o")])
            made.append(str(into / "entries.o"))
            needed += of_torch
        named = ["-o", str(into / f"{library}.so"), f"-Wl,-soname,{library}.so", "-Wl,-rpath,$ORIGIN:$ORIGIN/.."]
        run_compiler([*link, *made, *named, *needed])
    nothing = folder / "nothing.cpp"
    write_whole(nothing, "")
    for library in EMPTY:
        named = ["-o", str(folder / f"{library}.so"), f"-Wl,-soname,{library}.so", "-Wl,-rpath,$ORIGIN"]
        run_compiler([*link, "-fPIC", str(nothing), *named, "-Wl,--no-as-needed", "-lascendcl"])
    nothing.unlink()
    for path in (*folder.rglob("entries.s"), *folder.rglob("entries.o")):
        path.unlink()


def _with(others: Mapping[str, str]) -> list[Operator]:
    """Return the operators that are computed, then those of ``others`` that are not: each refuses its calls."""
    refusing = [Operator(name, forms, "refused") for name, forms in others.items() if name not in computed()]
    return [*computed().values(), *refusing]


def _entries(operators: Sequence[Operator]) -> str:
    """Return the assembly of the two functions of each operator, and the tables of names and recipes."""
    enter, execute = _ENTRIES[platform.machine()]
    lines = [".text"]
    for index, operator in enumerate(operators):
        name = operator.symbol
        for function, does in ((f"{name}GetWorkspaceSize", enter.format(index)), (name, execute)):
            lines += [f".globl {function}", f".type {function}, %function", f"{function}:", f"  {does}"]
    lines.append(".section .rodata")
    for index, operator in enumerate(operators):
        lines += [f'.Lname{index}: .asciz "{operator.name}"', f'.Lrecipe{index}: .asciz "{operator.recipe}"']
    lines += [".balign 4", ".hidden fake_cann_count", ".globl fake_cann_count"]
    lines.append(f"fake_cann_count: .long {len(operators)}")
    lines.append('.section .data.rel.ro, "aw"')
    for table, label in (("fake_cann_names", "name"), ("fake_cann_recipes", "recipe")):
        lines += [".balign 8", f".hidden {table}", f".globl {table}", f"{table}:"]
        lines += [f"  .quad .L{label}{index}" for index in range(len(operators))]
    lines.append('.section .note.GNU-stack, "", %progbits')
    return "\n".join(lines) + "\n"


@functools.cache
def _key() -> str:
    """Return a digest of the libraries' inputs: processor, torch's release, our sources, the tables and the flags."""
    tables = (TABLE, SIGNATURES, REFUSED, Path(__file__))
    return _digest((platform.machine(), release_of_torch()), *tables, *sorted(_SOURCES.rglob("*.*")))


def _object_key(compiler: list[str], source: Path) -> str:
    """Return a digest of a compiled source with the headers of ours that it includes.

    Builds of one release of torch share them: those for a CPU and for CUDA have the same headers.
    """
    found: set[Path] = set()
    waiting = [source]
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            names = re.findall(r'^#include "([^"]+)"', file.read_text(encoding="utf-8"), re.MULTILINE)
            waiting += [(file.parent / name).resolve() for name in names]
    return _digest((platform.machine(), release_of_torch(), *compiler), *sorted(found))


def _digest(words: Sequence[str], *files: Path) -> str:
    digest = hashlib.sha256(repr((_FLAGS, *words)).encode())
    for file in files:
        digest.update(file.name.encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:20]
