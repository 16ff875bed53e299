"""Advice on a command, an option, a program or a module that is missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from patchcore.builtin.install.command import install_command
from patchcore.builtin.install.distributions import Distribution, known_distributions, known_modules
from patchcore.builtin.shared.compilers import CompilerError, find_compiler
from patchcore.objects.modules import find_module

__all__ = ["MODULE", "describe_module", "describe_source"]

#: Given instead of a command if a module is missing.
MODULE = "import"
#: The commands that plugins add options to.
_WITH_OPTIONS = ("run", "verify")


def describe_source(name: str, command: str) -> Optional[str]:
    """Return the distribution of a command, an option or a program, and how to get it; ``None`` for an unknown name.

    Args:
        name: of the command or program, or the option with its dashes.
        command: the command that the option or program was given to, empty if ``name`` is that of a command.
    """
    for distribution in known_distributions():
        if name in (distribution.options if command in _WITH_OPTIONS else () if command else distribution.commands):
            found = distribution.version
            if found is None:
                return f"it comes with {distribution.name}: {install_command(distribution.name)}"
            return (
                f"it comes with {distribution.name} {found}, which is installed, but its plugin "
                f"{distribution.plugin} is not loaded (see --plugin, PATCHCORE_PLUGINS, patchcore doctor)"
            )
    for module in known_modules():
        if command and name in module.programs:
            return f"it comes with {module.name}: {' && '.join(install_command(*line) for line in module.install)}"
    return None


def describe_module(name: str) -> Optional[str]:
    """Return how to get a module that cannot be found; ``None`` for an unknown module.

    Args:
        name: ``package`` or ``package.module``.
    """
    return "; ".join(_ways(name)) or None


def _ways(name: str) -> Iterator[str]:
    root = name.partition(".")[0]
    is_there = find_module(root)  # then only a part of it is missing
    for distribution in known_distributions():
        if root == distribution.folder.rpartition("/")[2] and not is_there:
            yield f"it comes with {distribution.name}: {install_command(distribution.name)}"
        for module, option in distribution.gives.items():
            if f"{module}.".startswith(f"{name}."):
                yield f"patchcore run {option} provides {module}{_after(distribution)}"
    for known in known_modules():
        if known.name == root and not is_there:
            if known.install:
                yield f"to install it: {' && '.join(install_command(*line) for line in known.install)}"
            if known.note:
                yield known.note
            if known.compiles and not _has_compiler():
                yield (
                    f"{known.compiles} is compiled then, and no C++ compiler is on PATH; install one first: "
                    "apt-get install g++ (Debian, Ubuntu), dnf install gcc-c++ (Fedora), or point CXX at it"
                )


def _has_compiler() -> bool:
    try:
        find_compiler(names=["c++"])  # the only name that torch.utils.cpp_extension tries
    except CompilerError:
        return False
    return True


def _after(distribution: Distribution) -> str:
    return "" if distribution.version else f", after {install_command(distribution.name)}"
