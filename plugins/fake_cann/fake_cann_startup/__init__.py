"""Keeps ``import torch`` working where torch_npu is installed and no CANN is there, neither a real nor a fake one.

torch imports an installed torch_npu by itself, which fails without CANN, and ``import torch`` with it. In such a
process torch is left without its device ``npu``, as before torch_npu was installed, and a program that imports
torch_npu gets an ImportError that says how to run it. ``fake_cann_startup.pth`` calls :func:`start` when Python
starts, so this module uses nothing that the interpreter has not loaded by itself.
"""

from __future__ import annotations

import os
import sys

__all__ = ["AUTOLOAD", "HOMES", "MADE_FROM", "NO_CANN", "start"]

#: File in a folder of libraries that tells them from a real CANN.
MADE_FROM = "fake-cann.txt"

#: torch's variable: it loads torch_npu where the variable is 1 or not set.
AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
#: The value that :func:`start` sets; who brings a CANN for the process, or emulates torch_npu, removes it.
NO_CANN = "no-CANN"

#: Where CANN's set_env.sh says that it is.
HOMES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH")
_DRIVERS = ("/usr/local/Ascend", "/dev/davinci_manager")


def start() -> None:
    """Switch torch's import of torch_npu off, if torch_npu is installed and has no CANN. Children inherit that.

    On a fake CANN, watch for inductor instead: see :mod:`fake_cann_startup.inductor`.
    """
    if any(map(_is_fake, _searched())) and not any(isinstance(finder, _BeforeInductor) for finder in sys.meta_path):
        sys.meta_path.insert(0, _BeforeInductor())  # type: ignore[arg-type]
    if os.environ.get(AUTOLOAD, NO_CANN) != NO_CANN or _has_cann() or not _has_torch_npu():
        return
    if any(isinstance(finder, _Explaining) for finder in sys.meta_path):
        return  # site reads a folder twice where PYTHONPATH has it, too
    os.environ[AUTOLOAD] = NO_CANN
    sys.meta_path.insert(0, _Explaining())


def _has_cann() -> bool:
    return (
        any(os.environ.get(name) for name in HOMES)
        or any(map(os.path.exists, _DRIVERS))
        or any(os.path.exists(os.path.join(folder, "libascendcl.so")) for folder in _searched())
    )


def _searched() -> list[str]:
    return list(filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)))


def _is_fake(folder: str) -> bool:
    return os.path.exists(os.path.join(folder, MADE_FROM))


def _has_torch_npu() -> bool:
    return any(os.path.exists(os.path.join(folder, "torch_npu/lib/libtorch_npu.so")) for folder in sys.path)


class _Explaining:
    """Explains why torch_npu cannot be imported, in place of the loader's error about a library."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        """Find nothing; raise where torch_npu is being imported and there is still no CANN.

        Code that only looks a module up, as patchcore check does, finds it.

        Raises:
            ImportError: that is so.
        """
        if fullname == "torch_npu._C" and "torch_npu" in sys.modules and not _has_cann():
            raise ImportError(
                "torch_npu needs CANN, which this machine does not have. It runs on a fake one: "
                f"{sys.executable} -m fake_cann run PROGRAM, or patchcore run --emulate-npu PROGRAM",
                name=fullname,
            )


class _BeforeInductor:
    """Brings :class:`fake_cann_startup.inductor.AfterInductor` when torch_npu adds itself to inductor."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> object:
        """Return what that finder returns; nothing for other modules."""
        if fullname != "torch_npu._inductor":
            return None
        from fake_cann_startup.inductor import AfterInductor

        sys.meta_path.remove(self)  # type: ignore[arg-type]
        after = AfterInductor()
        sys.meta_path.insert(0, after)
        return after.find_spec(fullname)
