"""The torch_npu that an emulated NPU has: the real one on fake-cann where it can run, else the imitation."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import patchcore as pc
from npu_emulator.errors import EmulationError
from npu_emulator.settings import CORE, DEVICES, RANDOM, STRICT_DTYPES
from patchcore.plugin import StubSpec, did_you_mean

__all__ = ["ADAPTER", "CANN", "IMITATION", "Choice", "cann_is_here", "choose", "torch_npu_is_installed", "translate"]

#: Environment variable: which torch_npu an emulated NPU has where a program does not choose, see :data:`ADAPTERS`.
ADAPTER = "NPU_EMULATOR_ADAPTER"
CANN, IMITATION = "cann", "imitation"
#: ``auto`` is ``cann`` where the wheel of torch_npu and fake-cann are installed, else ``imitation``.
ADAPTERS = ("auto", CANN, IMITATION)

#: Releases of torch that fake-cann was tried with, each with the torch_npu of the same version, and the Pythons and
#: processors (``platform.machine()``) that have a wheel of it.
_TORCHES = ("2.13.0", "2.14.0")
_PYTHONS = ((3, 10), (3, 14))
_PROCESSORS = ("x86_64", "aarch64")

#: Variables of the imitation, and those of the fake CANN with the same meaning.
_SAME = ((DEVICES, "FAKE_CANN_DEVICES"), (RANDOM, "FAKE_CANN_RANDOM"))
#: Where CANN's set_env.sh says that CANN is; where a driver of NPUs shows itself.
_HOMES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH")
_DRIVERS = ("/usr/local/Ascend/driver", "/dev/davinci_manager")


@dataclass(frozen=True)
class Choice:
    """The torch_npu of an emulated NPU.

    Args:
        adapter: :data:`CANN` or :data:`IMITATION`.
        why: the reason for the imitation where nobody chose it by its name, and how to get the real one; else empty.
        explicit: whether the user, or an option that only one of them has, decided on it.
    """

    adapter: str
    why: str = ""
    explicit: bool = False


def choose(wanted: Optional[str] = None, core: Optional[str] = None, environ: Mapping[str, str] = os.environ) -> Choice:
    """Return which torch_npu an emulated NPU gets here. Neither torch nor torch_npu is imported.

    Args:
        wanted: one of :data:`ADAPTERS`; the variable :data:`ADAPTER` by default.
        core: the core of the imitation that the program chose, which decides for the imitation.
        environ: the environment.

    Raises:
        EmulationError: there is no such adapter, or ``cann`` was chosen and cannot be there.
    """
    chosen = wanted or environ.get(ADAPTER) or "auto"
    if chosen not in ADAPTERS:
        where, hint = "adapter" if wanted else ADAPTER, did_you_mean(chosen, ADAPTERS)
        raise EmulationError(f"npu_emulator: {where} is one of {', '.join(ADAPTERS)}, found {chosen!r}{hint}")
    installed = torch_npu_is_installed()
    if chosen == IMITATION:
        return Choice(IMITATION, explicit=True)
    if chosen == CANN:
        if not installed or not _has_fake_cann():
            raise EmulationError(f"npu_emulator: the real torch_npu is not here: {_how_to_get_it()}")
        return Choice(CANN, explicit=True)
    of_imitation = _of_imitation(core, environ)
    if of_imitation:
        return Choice(IMITATION, f"only the imitation has {of_imitation}", explicit=True)
    if installed:  # without fake-cann the imitation refuses to hide it, and names fake-cann
        return Choice(CANN if _has_fake_cann() else IMITATION)
    return Choice(IMITATION, _how_to_get_it())


def torch_npu_is_installed() -> bool:
    """Return whether a real torch_npu is importable: neither the imitation nor a stub of patchcore."""
    try:
        spec = importlib.util.find_spec("torch_npu")
    except ValueError:  # a module without a spec, made by hand
        return False
    origin = Path(spec.origin) if spec is not None and spec.origin and not isinstance(spec, StubSpec) else None
    # The wheel has its library there. An imitation, this one or a test's, has none.
    return origin is not None and origin.parent.joinpath("lib", "libtorch_npu.so").exists()


def cann_is_here(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether this machine has a real CANN, or a driver of NPUs.

    Args:
        environ: the environment.
    """
    return any(environ.get(name) for name in _HOMES) or any(map(os.path.exists, _DRIVERS))


def translate() -> None:
    """Give the fake CANN the settings that the variables of the imitation have, unless it has its own."""
    for ours, theirs in _SAME:
        if os.environ.get(ours):
            os.environ.setdefault(theirs, os.environ[ours])


def _has_fake_cann() -> bool:
    return importlib.util.find_spec("fake_cann") is not None


def _of_imitation(core: Optional[str], environ: Mapping[str, str]) -> str:
    """Return the setting that only the imitation has, if one is in use; else an empty text."""
    if core is not None:
        return f"core={core!r}"
    if environ.get(CORE, "auto") not in ("", "auto"):
        return f"{CORE}={environ[CORE]}"
    if environ.get(STRICT_DTYPES) == "1":
        return f"{STRICT_DTYPES}=1"
    return ""


def _how_to_get_it() -> str:
    """Return the command that brings the real torch_npu; or, where there is none, what this machine would need."""
    processor, python = platform.machine(), ".".join(map(str, sys.version_info[:2]))
    if sys.platform != "linux" or processor not in _PROCESSORS:
        served = " or ".join(_PROCESSORS)
        return f"the real torch_npu runs on Linux on {served}, found {sys.platform} on {processor}"
    oldest, newest = (".".join(map(str, version)) for version in _PYTHONS)
    if not _PYTHONS[0] <= sys.version_info[:2] <= _PYTHONS[1]:
        return f"the real torch_npu is for Python {oldest} to {newest}, found {python}"
    torch = _release_of_torch()
    if torch not in (None, *_TORCHES):
        return f"the real torch_npu runs with torch {' and '.join(_TORCHES)}, found {torch}"
    wheel = f"torch_npu=={torch or _TORCHES[0]}"
    missing = () if _has_fake_cann() else ("fake-cann",)
    lines = [pc.install_command(name) for name in (*missing, wheel) if name != wheel or not torch_npu_is_installed()]
    return f"the real torch_npu runs on this machine, too: {' && '.join(lines)}"


def _release_of_torch() -> Optional[str]:
    """Return the version of the installed torch without that of its build: 2.13.0 for 2.13.0+cpu."""
    from importlib import metadata

    try:
        return metadata.version("torch").partition("+")[0]
    except metadata.PackageNotFoundError:
        return None
