"""Makes calls for CUDA use the NPU as soon as ``mx_driving.patcher`` was imported.

``mx_driving/__init__.py`` (mx-driving 26.2) imports ``torch_npu.contrib.transfer_to_npu``, so that a migration may rely
on ``torch.cuda.is_available()`` before it applies anything; mmcv 1.x asks when it is imported, and never again. The
first patcher that is reverted takes this back with all else.
"""

from __future__ import annotations

from typing import Any, Optional

from mx_driving_compat.patches.application import Run, Unit
from mx_driving_compat.predefined import catalogue
from mx_driving_compat.predefined.classes import TransferToNpu, torch_npu_transferred
from patchcore import Patch, Target
from patchcore.plugin import Change, WriteContext, Writer

__all__ = ["Applier", "OnImportOfTorch", "Transfer", "revert_all"]


class Transfer:
    """Applies the patches of transfer_to_npu when torch is imported; loads plugins only then.

    Does nothing if torch_npu's own transfer_to_npu was imported.
    """

    def __init__(self) -> None:
        self._waiting = Run([Unit(Patch("mx_driving.transfer_to_npu", [OnImportOfTorch(self)]), [self])])
        self._run: Optional[Run] = None

    def begin(self) -> None:
        """Apply the patches when torch is imported, or at once if it was."""
        _begun.append(self)
        self._waiting.apply()

    def apply(self) -> None:
        """Apply the patches."""
        if not torch_npu_transferred():
            self._run = Run(TransferToNpu.units(), catalogue.load().settings)
            self._run.apply()

    def revert(self) -> None:
        """Revert the patches, and stop waiting for torch."""
        if self in _begun:
            _begun.remove(self)
        if self._run is not None:
            self._run.revert()
        self._run = None
        self._waiting.revert()


_begun: list[Transfer] = []


def revert_all() -> None:
    """Revert the transfer of this process, as a patcher is reverted; other applied patchers keep the patches."""
    for transfer in tuple(_begun):
        transfer.revert()


class OnImportOfTorch(Change):
    """Applies a transfer when torch has been imported.

    Args:
        transfer: the patches that are applied.
    """

    transfer: Transfer

    def __init__(self, transfer: Transfer) -> None:
        super().__init__(target=Target("torch", ("__dict__",)), transfer=transfer)

    @property
    def source(self) -> Any:
        return Transfer.apply

    def claims(self, target: Target) -> tuple[Target, ...]:
        return ()


class Applier(Writer):
    """Applies the transfer of an :class:`OnImportOfTorch`, whose patches have journal entries of their own."""

    def write(self, context: WriteContext) -> None:
        assert isinstance(context.change, OnImportOfTorch)
        if context.begin():
            context.change.transfer.apply()
