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
from patchcore.plugin import StubSpec

__all__ = ["ADAPTER", "CANN", "IMITATION", "Choice", "cann_is_here", "choose", "torch_npu_is_installed", "translate"]

#: Environment variable: which torch_npu an emulated NPU has where a program does not choose, see :data:`ADAPTERS`.
ADAPTER = "NPU_EMULATOR_ADAPTER"
CANN, IMITATION = "cann", "imitation"
#: ``auto`` is ``cann`` where the wheel of torch_npu and fake-cann are installed, else ``imitation``.
ADAPTERS = ("auto", CANN, IMITATION)

#: The release of torch_npu, and of torch, that fake-cann was tried with, and the Pythons that have a wheel of it.
WHEEL = "torch_npu==2.13.0"
_TORCH = "2.13.0"
_PYTHONS = ((3, 10), (3, 14))

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
        note: a line for the user, where the other one would have been expected; empty otherwise.
        explicit: whether the user, or an option that only one of them has, decided on it.
    """

    adapter: str
    note: str = ""
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
        where = "adapter" if wanted else ADAPTER
        raise EmulationError(f"npu_emulator: {where} is one of {', '.join(ADAPTERS)}, found {chosen!r}")
    installed = torch_npu_is_installed()
    if chosen == IMITATION:
        return Choice(IMITATION, explicit=True)
    if chosen == CANN:
        if not installed or not _has_fake_cann():
            raise EmulationError(f"npu_emulator: the real torch_npu is not here; install it: {_install_command()}")
        return Choice(CANN, explicit=True)
    of_imitation = _of_imitation(core, environ)
    if of_imitation:
        why = f"{of_imitation} is for the imitation of torch_npu, which is used" if installed else ""
        return Choice(IMITATION, why, explicit=True)
    if installed:  # without fake-cann the imitation refuses to hide it, and names fake-cann
        return Choice(CANN if _has_fake_cann() else IMITATION)
    return Choice(IMITATION, _could_be_real())


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


def _could_be_real() -> str:
    """Return a line with the command that brings the real torch_npu; empty where no wheel serves this machine."""
    from importlib import metadata

    served = sys.platform == "linux" and platform.machine() == "x86_64"
    if not served or not _PYTHONS[0] <= sys.version_info[:2] <= _PYTHONS[1]:
        return ""
    try:
        torch = metadata.version("torch").partition("+")[0]
    except metadata.PackageNotFoundError:
        return ""
    if torch != _TORCH:
        return ""
    return (
        "the emulated NPU is an imitation of torch_npu; the real torch_npu runs on this machine, too: "
        f"{_install_command()} (--emulate-npu=imitation hides this line)"
    )


def _install_command() -> str:
    """Return the command that installs the wheel, and fake-cann unless it is here."""
    wheel = f"python -m pip install {WHEEL}"
    return wheel if _has_fake_cann() else f"{pc.install_command('fake-cann')} && {wheel}"
