"""Reads the version and the calls of a torch_npu, installed or a wheel, without importing it."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

from fake_cann import elf
from fake_cann.errors import FakeCannError
from fake_cann.table import TABLE, computed

__all__ = ["Wheel", "library", "operators_called", "package_of", "read_wheel", "symbols_here", "torch_npu_version"]

_LIBRARY = "torch_npu/lib/libtorch_npu.so"
_SCHEMAS = "torch_npu/csrc/aten/npu_native_functions_by_codegen.yaml"
#: How names of CANN begin: its runtime, collectives, profiler and graph engine.
_OF_CANN = re.compile(r"acl|rt[A-Z]|Hccl|Hcom|Msprof|mstx|_ZNK?2ge")


def package_of(name: str) -> Path:
    """Return the folder of an installed package, not imported.

    Args:
        name: of the package.

    Raises:
        FakeCannError: it is not installed.
    """
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.origin:
        raise FakeCannError(f"fake_cann: expected {name}, found none; torch 2.13.0 and torch_npu 2.13.0 were tried")
    return Path(spec.origin).parent


def torch_npu_version() -> str:
    """Return the version of the installed torch_npu.

    Raises:
        FakeCannError: it is not installed.
    """
    package_of("torch_npu")
    return importlib.metadata.version("torch_npu")


def library() -> Path:
    """Return the library of the installed torch_npu; an imitation has no file there.

    Raises:
        FakeCannError: it is not installed.
    """
    return package_of("torch_npu") / "lib" / "libtorch_npu.so"


def operators_called() -> list[str]:
    """Return the names of the operators, as in the tables, that the installed torch_npu can call.

    They are texts in its library: it looks each up when it calls it for the first time.

    Raises:
        FakeCannError: it is not installed.
    """
    return _operators_in(library().read_bytes())


def _operators_in(data: bytes) -> list[str]:
    found = re.findall(rb"\0(acl(?:nn)?[A-Z][A-Za-z0-9]+)GetWorkspaceSize(?=\0)", data)
    return sorted({symbol.decode().removeprefix("aclnn") for symbol in found})


@dataclass(frozen=True)
class Wheel:
    """What a wheel of torch_npu calls, beside what the fake CANN has.

    Args:
        name: of the file.
        processor: ``x86_64`` or ``aarch64``.
        operators: the names of the operators that it can call, as in the tables.
        symbols: the names of CANN that have to be there when it is loaded.
        schemas: the operators ``npu::`` and those of ATen that it has for NPUs, with their arguments.
    """

    name: str
    processor: str
    operators: tuple[str, ...]
    symbols: tuple[str, ...]
    schemas: tuple[str, ...]

    @property
    def computed(self) -> list[str]:
        """The operators that the fake CANN computes."""
        return [name for name in self.operators if name in computed()]

    @property
    def refused(self) -> list[str]:
        """The operators that it refuses by name."""
        return [name for name in self.operators if name not in computed()]

    @property
    def missing(self) -> list[str]:
        """The names without which this wheel cannot be loaded on the fake CANN."""
        return [name for name in self.symbols if name not in symbols_here()]


def read_wheel(path: Path) -> Wheel:
    """Return what a wheel of torch_npu calls.

    Args:
        path: of the file, as ``pip download --no-deps torch_npu==2.13.0`` writes it.

    Raises:
        FakeCannError: it cannot be read, or is no wheel of torch_npu.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            data = archive.read(_LIBRARY)
            schemas = archive.read(_SCHEMAS).decode() if _SCHEMAS in archive.namelist() else ""
        needed, _ = elf.symbols(data)
        processor = elf.processor(data)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise FakeCannError(f"fake_cann: expected a wheel of torch_npu, found {path}: {error}") from error
    return Wheel(
        path.name,
        processor,
        tuple(_operators_in(data)),
        tuple(sorted(filter(_OF_CANN.match, needed))),
        tuple(sorted(set(re.findall(r"^ *- func: *(\S.*?) *$", schemas, re.MULTILINE)))),
    )


@functools.cache
def symbols_here() -> frozenset[str]:
    """Return the names that the libraries of the fake CANN have, from their sources."""
    sources = (path.read_text(encoding="utf-8") for path in TABLE.with_name("csrc").rglob("*.cpp"))
    found = (name for text in sources for name in re.findall(r"^EXPORTED [^;={]*?(\w+)\(", text, re.MULTILINE))
    return frozenset(found)
