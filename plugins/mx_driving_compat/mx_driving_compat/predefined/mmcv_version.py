"""Shows another version of mmcv to mmdet and mmdet3d, which refuse versions that they do not know."""

from __future__ import annotations

from mx_driving_compat.patches.application import Run, Unit
from patchcore import Literal, Patch, Replace, SettingsError, WhileImporting

__all__ = ["ensure_mmcv_version", "patch_mmcv_version"]


def ensure_mmcv_version(expected_version: str) -> None:
    """Show ``expected_version`` to mmdet and mmdet3d as ``mmcv.__version__``, while they are being imported.

    Nothing is imported now, and before and after mmcv has its own version. A library that is not installed, or that was
    imported already, is left alone.

    Args:
        expected_version: ``"1.6.0"``, say.

    Raises:
        SettingsError: that is no version.
    """
    from packaging.version import InvalidVersion, Version

    try:
        Version(expected_version)
    except (InvalidVersion, TypeError):
        raise SettingsError(f"ensure_mmcv_version({expected_version!r}): expected a version such as '1.6.0'") from None
    change = Replace("mmcv:__version__", Literal(expected_version))
    patches = [Patch(f"mmcv.version.{name}", [WhileImporting(name, change)]) for name in ("mmdet", "mmdet3d")]
    Run([Unit(patch, [patch]) for patch in patches]).apply()


patch_mmcv_version = ensure_mmcv_version
