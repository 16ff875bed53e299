"""API 1.0: a builder that collects functions that patch by hand."""

from __future__ import annotations

from mx_driving_compat.collecting.module_patches import add_module_patches
from mx_driving_compat.collecting.patcher import Patcher
from mx_driving_compat.collecting.requests import TrainingRequests
from mx_driving_compat.patches.by_hand import LegacyPatchWrapper
from mx_driving_compat.predefined.classes import DEFAULT, function_of
from patchcore import DeclarationError

__all__ = ["LegacyPatcherBuilder", "PatcherBuilder", "default_patcher_builder"]


class LegacyPatcherBuilder(TrainingRequests):
    """Collects patches and settings; :meth:`build` returns a patcher with them."""

    def __init__(self) -> None:
        super().__init__()
        self._module_patches: dict[str, list[LegacyPatchWrapper]] = {}
        self._blacklist: set[str] = set()

    def add_module_patch(self, module_name: str, *patches: LegacyPatchWrapper) -> LegacyPatcherBuilder:
        """Add patches; return the builder.

        Args:
            module_name: dotted name of the module that their functions are given, ``"mmcv"`` or ``"mmcv.ops"``.
            patches: ``Patch(function)`` each.

        Raises:
            DeclarationError: something else is among them.
        """
        for patch in patches:
            if not isinstance(patch, LegacyPatchWrapper):
                name = getattr(patch, "__name__", repr(patch))
                raise DeclarationError(
                    f"add_module_patch({module_name!r}): expected Patch(function), got {patch!r}; write "
                    f"add_module_patch({module_name!r}, Patch({name})), or Patcher().add({name}) for API 2.0"
                )
        self._module_patches.setdefault(module_name, []).extend(patches)
        return self

    def disable_patches(self, *patch_names: str) -> LegacyPatcherBuilder:
        """Disable patches by the names of their functions; return the builder."""
        self._blacklist.update(patch_names)
        return self

    def brake_at(self, brake_step: int) -> LegacyPatcherBuilder:
        """End the program, with exit code 0, after training step ``brake_step``; return the builder."""
        return super().brake_at(brake_step)

    with_brake = brake_at

    def build(self, allow_internal_format: bool = False) -> _LegacyPatcher:
        """Return the patcher, not applied.

        Args:
            allow_internal_format: whether torch_npu may keep tensors in private formats.
        """
        patcher = Patcher()
        add_module_patches(patcher.selection, self._module_patches, self._blacklist)
        patcher.training = self.training
        return _LegacyPatcher(patcher.allow_internal_format(allow_internal_format))


#: As API 1.0 calls it.
PatcherBuilder = LegacyPatcherBuilder


class _LegacyPatcher:
    """The patcher of API 1.0, which a builder returns; as a context manager it restores everything at the end.

    Args:
        patcher: of API 2.0.
    """

    def __init__(self, patcher: Patcher) -> None:
        self._patcher = patcher

    @property
    def is_applied(self) -> bool:
        """True if it is in force."""
        return self._patcher.is_applied

    def transfer_to_npu(self) -> None:
        """Do nothing: :meth:`apply` makes calls for CUDA use the NPU."""

    def apply(self) -> None:
        """Apply the patches; see :meth:`mx_driving_compat.collecting.patcher.Patcher.apply`."""
        self._patcher.apply()

    def revert(self) -> None:
        """Restore everything. Not in mx_driving.patcher."""
        self._patcher.revert()

    def __enter__(self) -> _LegacyPatcher:
        self.apply()
        return self

    def __exit__(self, *error: object) -> None:
        self.revert()


class _DefaultPatcherBuilder(LegacyPatcherBuilder):
    """A builder that has the default patches."""

    def __init__(self) -> None:
        super().__init__()
        for patch in DEFAULT:
            self.add_module_patch(patch.target_module, LegacyPatchWrapper(function_of(patch)))

    def __repr__(self) -> str:
        return "<default_patcher_builder>"


#: With the default patches.
default_patcher_builder = _DefaultPatcherBuilder()
