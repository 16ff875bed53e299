"""Decides which modules are edited: the program, and installed packages except torch and packages made for NPUs."""

from __future__ import annotations

import functools
import os
import sysconfig

__all__ = ["OWN_BRANCHES", "WITH_BRANCHES", "has_branches", "is_library", "is_program"]

#: Packages that are never edited: torch and compilers for it, whose ``"cuda"`` is torch's own device; and packages made
#: for NPUs.
OWN_BRANCHES = frozenset(
    (
        "functorch",
        "mindspeed",
        "mx_driving",
        "mindspeed_compat",
        "mx_driving_compat",
        "npu_emulator",
        "npu_graph",
        "npu_migrate",
        "patchcore",
        "patchcore_startup",
        "patchcore_torch",
        "torch",
        "torch_markers",
        "torch_npu",
        "torch_npu_patches",
        "torchgen",
        "triton",
        "vllm_ascend",
    )
)

#: Packages with functions that have a branch for NPUs beside one for CUDA. Such a function runs as without CUDA.
WITH_BRANCHES = frozenset(("accelerate", "peft", "transformers"))

_INSTALLED = ("site-packages", "dist-packages")
_LIBRARY = tuple(f"{folder}{os.sep}" for folder in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})


def is_program(name: str, file: str) -> bool:
    """Return true for a module of the program.

    Args:
        name: of the module.
        file: path of its source.
    """
    return _kind(os.path.dirname(file)) == "program" and name.partition(".")[0] not in OWN_BRANCHES


def is_library(name: str, file: str) -> bool:
    """Return true for a module of an installed package that may be edited; arguments as for :func:`is_program`."""
    return _kind(os.path.dirname(file)) == "library" and name.partition(".")[0] not in OWN_BRANCHES


def has_branches(name: str, file: str) -> bool:
    """Return true for a module of a package that has branches for NPUs; arguments as for :func:`is_program`."""
    return name.partition(".")[0] in WITH_BRANCHES


@functools.cache
def _kind(folder: str) -> str:
    if not set(_INSTALLED).isdisjoint(folder.split(os.sep)):
        return "library"
    return "python" if f"{folder}{os.sep}".startswith(_LIBRARY) else "program"
