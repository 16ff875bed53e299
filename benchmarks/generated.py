"""Packages and plugins made for the benchmarks, on disk, as a user's are."""

from __future__ import annotations

from pathlib import Path

__all__ = ["function_name", "module_names", "write_package", "write_plugins"]

_MODULE = '''"""Module {index} of a package made for benchmarks."""

from __future__ import annotations

import functools
import math

SCALE = {index}


class Layer:
    """A class like those of a library."""

    def __init__(self, width: int, bias: bool = True) -> None:
        self.width = width
        self.bias = bias

    def forward(self, x, scale=SCALE):
        return x * scale + math.sqrt(self.width)

    @staticmethod
    def depth(x):
        return len(x)


@functools.lru_cache(maxsize=None)
def area(width, height):
    return width * height

{functions}'''

_FUNCTION = '''
def {name}(x, y=0):
    """Return x, whatever y is."""
    return x
'''

_PLUGIN = '''"""NPU patches of model team {index}."""

from __future__ import annotations

import patchcore as pc

ATTENTION = pc.Patch(
    "team_{index}.attention",
    summary="attention of {package}.module_{index} on the fused kernel",
    requires=["{package}>=2,<3"],
    legacy_names=["attention_{index}"],
    changes=[
        pc.Replace("{package}.module_{index}:Layer.forward", "{name}.kernels:forward"),
        pc.Replace("{package}.module_{index}:Layer.depth", "{name}.kernels:depth"),
    ],
)


@pc.patch("{package}.module_{index}:{function}", name="team_{index}.resize", requires="{package}>=2")
def resize(x, y=0):
    """Return x without a copy."""
    return x


@pc.wrap("{package}.module_{index}:area", name="team_{index}.area")
def area(original, *args, **kwargs):
    """Count the calls of area."""
    return original(*args, **kwargs)


@pc.hookimpl
def register_patches():
    return [ATTENTION, resize, area]
'''

_METADATA = """Metadata-Version: 2.3
Name: {name}
Version: {version}
Summary: {summary}
Author: A model team
License-Expression: Apache-2.0
Classifier: Development Status :: 3 - Alpha
Classifier: Programming Language :: Python :: 3
Requires-Python: >=3.9
Requires-Dist: patchcore
Description-Content-Type: text/markdown

# {name}

{text}
"""


def module_names(package: str, modules: int) -> list[str]:
    """Return the full names of the modules that :func:`write_package` writes."""
    return [f"{package}.module_{index:03}" for index in range(modules)]


def function_name(index: int) -> str:
    """Return the name of a module's function number ``index``."""
    return f"function_{index:03}"


def write_package(folder: Path, package: str, *, modules: int, functions: int = 1) -> None:
    """Write a package of flat modules, each with a class, a cached function and plain functions, and its metadata.

    Args:
        folder: goes on ``sys.path``.
        package: its name; the distribution has the same.
        modules: how many there are, ``module_000`` and so on.
        functions: how many plain functions each has, ``function_000`` and so on.
    """
    home = folder / package
    home.mkdir(parents=True)
    (home / "__init__.py").write_text(f'"""{package}: made for benchmarks."""\n')
    texts = "\n".join(_FUNCTION.format(name=function_name(index)) for index in range(functions))
    for index in range(modules):
        (home / f"module_{index:03}.py").write_text(_MODULE.format(index=index, functions=texts))
    _write_metadata(folder, package, "2.1.0", entry_points="")


def write_plugins(folder: Path, package: str, *, plugins: int) -> None:
    """Write installed plugins with three patches each, on modules of a package of :func:`write_package`.

    Args:
        folder: goes on ``sys.path``.
        package: what they patch.
        plugins: how many.
    """
    for number in range(plugins):
        index, name = f"{number:03}", f"model_team_{number:03}"
        home = folder / name
        home.mkdir(parents=True)
        (home / "__init__.py").write_text(f'"""Team {index}."""\n')
        (home / "kernels.py").write_text(
            "def forward(self, x, scale=1):\n    return x\n\n\ndef depth(x):\n    return 1\n"
        )
        text = _PLUGIN.format(index=index, package=package, name=name, function=function_name(0))
        (home / "plugin.py").write_text(text)
        _write_metadata(folder, name, "1.0", entry_points=f"[npu_patches]\nteam_{index} = {name}.plugin\n")


def _write_metadata(folder: Path, name: str, version: str, *, entry_points: str) -> None:
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    text = "\n\n".join(f"Paragraph {i} of a description as long as such descriptions are." * 3 for i in range(8))
    metadata = _METADATA.format(name=name.replace("_", "-"), version=version, summary="Made for benchmarks", text=text)
    (info / "METADATA").write_text(metadata)
    (info / "INSTALLER").write_text("pip\n")
    (info / "RECORD").write_text(
        "".join(f"{path.relative_to(folder)},,\n" for path in sorted((folder / name).iterdir()))
    )
    if entry_points:
        (info / "entry_points.txt").write_text(entry_points)
