"""Reads the version and the calls of the installed torch_npu without importing it: an import needs the libraries."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from pathlib import Path

from fake_cann.errors import FakeCannError

__all__ = ["library", "operators_called", "package_of", "torch_npu_version"]


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
    """Return the names of the operators, without ``aclnn``, that the installed torch_npu can call.

    They are texts in its library: it looks each up when it calls it for the first time.

    Raises:
        FakeCannError: it is not installed.
    """
    data = library().read_bytes()
    names = {found.decode() for found in re.findall(rb"\0aclnn([A-Z][A-Za-z0-9]+)(?=\0)", data)}
    return sorted(name[: -len("GetWorkspaceSize")] for name in names if name.endswith("GetWorkspaceSize"))
