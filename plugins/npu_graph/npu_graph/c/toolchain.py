"""The system's C compiler: its command, its features and its flags."""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from patchcore import plugin as compilers

__all__ = ["MISSING", "Toolchain", "find_compiler", "find_toolchain"]

#: The advice where there is none.
MISSING = (
    "no C compiler: neither $CC nor cc, gcc or clang on PATH compiles; install one (apt-get install gcc) or name it "
    "(CC=/opt/gcc/bin/gcc)"
)

# eager computes a * b - c * d, which is 0 where both products are equal; products of matrices are not built this way
_FLAGS: tuple[str, ...] = (
    "-O3",
    "-std=gnu11",
    "-fPIC",
    "-shared",
    "-fwrapv",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=off",
)
#: Tried one by one; those that the compiler refuses are left out.
_OPTIONAL = ("-march=native", "-fopenmp-simd", "-fopenmp")
_PROBE = "#include <math.h>\nint probe(double x) { return x > sqrt(x); }\n"
_TIMEOUT = 600  # seconds; a compiler that hangs that long does not end


@dataclass(frozen=True)
class Toolchain:
    """A C compiler.

    Args:
        command: the compiler, with the flags that ``CC`` has.
        flags: for kernels.
        target: a digest of the macros that the compiler predefines under these flags: its version, the instruction set,
            OpenMP.
    """

    command: tuple[str, ...]
    flags: tuple[str, ...]
    target: str

    def __str__(self) -> str:
        return f"{' '.join([*self.command, *self.flags])} ({self.target})"

    def build(self, source: Path, library: Path) -> None:
        """Compile one file to a shared library.

        Raises:
            RuntimeError: the compiler has errors, which the message quotes.
        """
        done = _run([*self.command, *self.flags, str(source), "-o", str(library), "-lm"])
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.splitlines()
            raise RuntimeError(
                f"{' '.join(self.command)} failed: {'; '.join(lines[:3]) or f'status {done.returncode}'}"
            )


def find_compiler() -> Optional[tuple[str, ...]]:
    """Return the command that ``CC`` names, or the first of cc, gcc and clang that works; ``None`` if there is none."""
    return _find(os.environ.get("CC", ""), os.environ.get("PATH", ""))


def find_toolchain() -> Optional[Toolchain]:
    """Return the compiler with the flags that it accepts; ``None`` without a compiler."""
    command = find_compiler()
    return None if command is None else _examine(command, os.environ.get("PATH", ""))


@functools.cache
def _find(chosen: str, path: str) -> Optional[tuple[str, ...]]:
    environ, names = {"CC": chosen, "PATH": path}, ("cc", "gcc", "clang")
    try:
        return tuple(compilers.find_compiler(environ, variable="CC", names=names, accepts=_compiles))
    except compilers.CompilerError:
        return None


@functools.cache
def _examine(command: tuple[str, ...], path: str) -> Toolchain:
    flags = _FLAGS
    for flag in _OPTIONAL:
        flags = (*flags, flag) if _accepts(command, (*flags, flag)) else flags
    known = _run([*command, *flags, "-dM", "-E", "-x", "c", os.devnull])
    return Toolchain(command, flags, hashlib.sha256(known.stdout.encode()).hexdigest()[:16])


def _compiles(command: Sequence[str]) -> bool:
    return _accepts(command, _FLAGS)


def _accepts(command: Sequence[str], flags: Sequence[str]) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text(_PROBE)
        return _run([*command, *flags, str(source), "-o", str(Path(folder, "probe.so")), "-lm"]).returncode == 0


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
