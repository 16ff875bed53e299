"""Switches the emulation on: before :func:`install` is called, nothing is emulated in a process."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
from collections.abc import Iterator
from typing import Optional

from npu_emulator import cuda_build
from npu_emulator.adapter import CANN, IMITATION, Choice, cann_is_here, choose, torch_npu_is_installed, translate
from npu_emulator.errors import EmulationError
from npu_emulator.gpus import hide_gpus
from npu_emulator.mmcv_operators.hook import OperatorsHook
from npu_emulator.settings import Settings, make_settings
from npu_emulator.stand_ins import StandIn, StandInFinder

__all__ = [
    "Installation",
    "check",
    "current_settings",
    "device_is_active",
    "emulates",
    "install",
    "is_imitated",
    "is_installed",
    "prepare",
    "why_imitated",
]

MX_DRIVING = StandIn("mx_driving", {"mx_driving": "npu_emulator.mx_driving"}, remedy="pip uninstall mx-driving")
TORCH_NPU = StandIn(
    "torch_npu",
    {"torch_npu": "npu_emulator.torch_npu", "torch.npu": "npu_emulator.torch_npu.npu"},
    remedy="pip uninstall torch-npu",
    distribution="torch_npu",
    # torch imports it at the end of its own import, as it does the real one (RFC pytorch/pytorch#122468)
    entry_points={"torch.backends": "torch_npu = torch_npu:_autoload"},
)


#: torch's variable that switches its import of torch_npu off, and the value that fake-cann sets where there is no CANN.
_AUTOLOAD, _NO_CANN = "TORCH_DEVICE_BACKEND_AUTOLOAD", "no-CANN"


class Installation:
    """The result of :func:`install`: a context manager, and the handle that undoes the installation.

    Several installations may be open at once (a test session and a test in it); the stand-ins stay until the last
    one is undone.

    Args:
        stand_ins: of the libraries that are emulated.
        mmcv: whether the operators of mmcv take NPU tensors.
        adapter: ``"cann"`` or ``"imitation"``, which torch_npu the device has; ``None`` without a device.
    """

    def __init__(self, stand_ins: tuple[StandIn, ...], mmcv: bool, adapter: Optional[str]) -> None:
        self._stand_ins = stand_ins
        self._mmcv = mmcv
        self.adapter = adapter

    def uninstall(self) -> None:
        """Give up this installation; the last one puts ``sys.meta_path`` and ``sys.modules`` back as they were.

        Only the stand-ins are removed, and not the device once torch has it: torch cannot forget a device, so
        ``torch_npu`` stays importable to the end of the process. Calling it again does nothing.
        """
        with _lock:
            if self not in _open_installations:
                return
            _open_installations.remove(self)
            for stand_in in self._stand_ins:
                if any(stand_in in other._stand_ins for other in _open_installations):
                    continue
                if stand_in is not TORCH_NPU or not device_is_active():
                    _disconnect(stand_in.name)
            device_stays = TORCH_NPU.name in _finders or _on_cann
            if self._mmcv and not device_stays and not any(other._mmcv for other in _open_installations):
                _mmcv_operators.disconnect()

    def __enter__(self) -> Installation:
        return self

    def __exit__(self, *exception: object) -> None:
        self.uninstall()


_lock = threading.RLock()
_open_installations: list[Installation] = []
_finders: dict[str, StandInFinder] = {}
_mmcv_operators = OperatorsHook()
_settings: Optional[Settings] = None
_on_cann = False
_why = ""


def install(
    *,
    device: bool = True,
    mmcv: Optional[bool] = None,
    core: Optional[str] = None,
    devices: Optional[int] = None,
    adapter: Optional[str] = None,
) -> Installation:
    """Emulate NPU libraries, and an NPU, in this process.

    Where the wheel of torch_npu and fake-cann are installed, ``import torch_npu`` imports the real one, which computes
    on the CPU. Elsewhere it resolves to :mod:`npu_emulator.torch_npu`, an imitation. ``import mx_driving`` resolves to
    :mod:`npu_emulator.mx_driving`. ``importlib.util.find_spec``, which is how patches ask for them, and
    ``importlib.metadata`` answer from now on. Nothing heavy is imported: torch gets its device ``npu`` when it is
    imported itself, or at once where it is already (unless ``TORCH_DEVICE_BACKEND_AUTOLOAD=0``: then when ``torch_npu``
    is).

    Installing again is allowed. The device cannot be undone: it stays to the end of the process.

    Args:
        device: emulate the device and ``torch_npu`` too; without, only ``mx_driving``, whose kernels take tensors of
            every device that torch has.
        mmcv: let the operators of ``mmcv._ext`` take NPU tensors, as a build of mmcv for NPUs does; by default if the
            device is emulated. ``device=False, mmcv=True`` is for a device that somebody else emulates.
        core: ``"python"``, ``"native"`` or ``"auto"``, which is the compiled one where it was built; the environment
            variable ``NPU_EMULATOR_CORE`` by default. Only the imitation has cores, so a core chooses the imitation.
        devices: how many NPUs there are, 1 to 64; ``NPU_EMULATOR_DEVICES`` by default, else 8.
        adapter: ``"cann"`` for the real torch_npu, ``"imitation"``, or ``"auto"``; the environment variable
            ``NPU_EMULATOR_ADAPTER`` by default. ``Installation.adapter`` is the one that was chosen.

    Returns:
        The handle that undoes it, usable as a context manager.

    Raises:
        RealLibraryError: a real ``mx_driving`` or ``torch_npu`` is importable or already imported here, and fake-cann
            is not.
        EmulationError: settings that do not exist, that differ from those of a device that is there, a torch that
            the device cannot be added to, or a real torch_npu that cannot run on a fake CANN here.
    """
    with _lock:
        chosen = _chosen(adapter, core) if device else None
        on_cann = chosen is not None and chosen.adapter == CANN
        imitated = chosen is not None and not on_cann
        stand_ins = (MX_DRIVING, TORCH_NPU) if imitated else (MX_DRIVING,)
        wants_mmcv = device if mmcv is None else mmcv
        if chosen is not None and imitated:
            _settle(core, devices, chosen.why)
        if device:
            hide_gpus()
        if device and os.environ.get(_AUTOLOAD) == _NO_CANN:
            del os.environ[_AUTOLOAD]
        if on_cann:
            _install_cann(devices)
        connected = []
        try:
            for stand_in in stand_ins:
                if stand_in.name not in _finders and not (on_cann and _has_real(stand_in)):
                    finder = StandInFinder(stand_in)
                    finder.connect(hide=chosen is not None and _may_hide(stand_in, chosen))
                    _finders[stand_in.name] = finder
                    connected.append(stand_in.name)
            if TORCH_NPU.name in connected:
                cuda_build.connect()
            if wants_mmcv:
                _mmcv_operators.connect()
            if device and sys.modules.get("torch") is not None and os.environ.get(_AUTOLOAD, "1") == "1":
                importlib.import_module(TORCH_NPU.name)
        except BaseException:
            for name in connected:
                _disconnect(name)
            if not any(other._mmcv for other in _open_installations):
                _mmcv_operators.disconnect()
            raise
        installation = Installation(stand_ins, wants_mmcv, chosen.adapter if chosen is not None else None)
        _open_installations.append(installation)
    return installation


def _chosen(adapter: Optional[str], core: Optional[str]) -> Choice:
    """Return which torch_npu to emulate with: that of this process, if it has one."""
    if _on_cann:
        return Choice(CANN)
    if TORCH_NPU.name in _finders:
        return Choice(IMITATION)
    return choose(adapter, core)


def _install_cann(devices: Optional[int]) -> None:
    """Let this process import the real torch_npu.

    Raises:
        EmulationError: it cannot run here.
    """
    global _on_cann
    from fake_cann import environment

    if devices is not None and not _on_cann:
        os.environ["FAKE_CANN_DEVICES"] = str(make_settings(devices=devices).devices)
    translate()
    with _errors_of_fake_cann():
        environment.install()
    _on_cann = True


def prepare(adapter: Optional[str] = None) -> None:
    """Build the libraries of the fake CANN for this process and its children, if :func:`install` would take them.

    Args:
        adapter: see :func:`install`.

    Raises:
        EmulationError: see :func:`check`; or the libraries cannot be built.
    """
    if check(adapter).adapter == CANN:
        from fake_cann import environment

        translate()
        with _errors_of_fake_cann():
            environment.prepare(os.environ)


@contextlib.contextmanager
def _errors_of_fake_cann() -> Iterator[None]:
    """Raise errors of fake-cann as errors of the emulation, with the way to do without it."""
    from fake_cann import FakeCannError

    try:
        yield
    except FakeCannError as error:
        raise EmulationError(f"{error}. The imitation of torch_npu runs without: --emulate-npu=imitation") from error


def _has_real(stand_in: StandIn) -> bool:
    """Return whether a real library is there that the fake CANN leaves as it is: its kernels fail when called."""
    try:
        StandInFinder(stand_in).refuse_to_hide_real_library()
    except EmulationError:
        return True
    return False


def _may_hide(stand_in: StandIn, chosen: Choice) -> bool:
    """Return True for a torch_npu that cannot work, on a machine without CANN, where the imitation was asked for."""
    return (
        stand_in is TORCH_NPU
        and chosen.explicit
        and torch_npu_is_installed()
        and TORCH_NPU.name not in sys.modules
        and not cann_is_here()
    )


def _disconnect(name: str) -> None:
    """Disconnect the stand-ins of a library."""
    if name == TORCH_NPU.name:
        cuda_build.disconnect()
    _finders.pop(name).disconnect()


def is_installed() -> bool:
    """Return whether the device is emulated in this process, or is going to be once torch is imported."""
    return is_imitated() or _on_cann


def is_imitated() -> bool:
    """Return whether the device of this process is the imitation's."""
    return TORCH_NPU.name in _finders


def emulates() -> bool:
    """Return True if a library is emulated here: ``mx_driving`` alone, or ``torch_npu`` and the device with it."""
    return bool(_finders)


def current_settings() -> Settings:
    """Return the settings of the emulated device: those of the first :func:`install`, else of the environment."""
    return _settings or make_settings()


def why_imitated() -> str:
    """Return why the device of this process is the imitation's, empty where it was chosen by its name."""
    return _why


def _settle(core: Optional[str], devices: Optional[int], why: str) -> None:
    """Take the settings of this installation, unless others are in force."""
    global _settings, _why
    wanted = make_settings(core, devices)
    if is_imitated() and _settings is not None:
        differs = (core is not None and wanted.core != _settings.core) or (
            devices is not None and wanted.devices != _settings.devices
        )
        if differs:
            raise EmulationError(
                f"npu_emulator.install(): expected the settings of the emulated device of this process "
                f"({_settings}), found {wanted}. They cannot change; use another process"
            )
        return
    _settings, _why = wanted, why


def check(adapter: Optional[str] = None) -> Choice:
    """Return which torch_npu :func:`install` would take; raise its errors, except those that only torch can find.

    Args:
        adapter: see :func:`install`.

    Raises:
        RealLibraryError: a real library is there.
        EmulationError: a setting that does not exist, or a real torch_npu that cannot run here.
    """
    make_settings()
    chosen = _chosen(adapter, None)
    for stand_in in () if chosen.adapter == CANN else (MX_DRIVING, TORCH_NPU):
        if stand_in.name not in _finders and not _may_hide(stand_in, chosen):
            StandInFinder(stand_in).refuse_to_hide_real_library()
    return chosen


def device_is_active() -> bool:
    """Return whether torch has the emulated device; it keeps it to the end of the process."""
    if "npu_emulator.device" not in sys.modules:
        return False
    from npu_emulator.device import is_active

    return is_active()
