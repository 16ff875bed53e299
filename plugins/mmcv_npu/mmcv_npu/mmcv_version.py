"""The version of mmcv that mmdet and mmdet3d are shown while they are imported.

Both check it in the first lines of their package and refuse versions newer than they know: mmdet 3.3 and mmdet3d 1.4
take mmcv below 2.2.0, mmdet3d 1.0.0rc6 takes it up to 1.7.0, which cannot be compiled against torch 2. The real version
is back when their import has ended, and when it has failed.

A refusal that ends a program is followed by the name of the patch that lifts it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Optional, Union

import patchcore as pc

if TYPE_CHECKING:
    from patchcore import Plan

_VERSION = "mmcv:__version__"
_LEGACY_NAMES = ("mmcv_version", "patch_mmcv_version", "ensure_mmcv_version")

#: The newest mmcv that each accepts, by the major version of mmcv.
NEWEST_FOR_MMDET = {2: "2.1.0"}
NEWEST_FOR_MMDET3D = {1: "1.7.0", 2: "2.1.0"}


def newest_for_mmdet(version: str) -> str:
    """Return the version of mmcv that mmdet is shown: the real one, or the newest that mmdet accepts.

    Args:
        version: the real one.
    """
    return _at_most(version, NEWEST_FOR_MMDET)


def newest_for_mmdet3d(version: str) -> str:
    """Return the version of mmcv that mmdet3d is shown: the real one, or the newest that mmdet3d accepts.

    Args:
        version: the real one.
    """
    return _at_most(version, NEWEST_FOR_MMDET3D)


def _at_most(version: str, newest: dict[int, str]) -> str:
    from packaging.version import Version

    real = Version(version)
    limit = newest.get(real.major, version)
    return limit if real > Version(limit) else version


def refused_by_mmdet3d() -> Union[bool, pc.Skip]:
    """Return whether mmdet3d refuses the mmcv of this environment."""
    real = _real_version()
    if real is not None and newest_for_mmdet3d(real) == real:
        return pc.Skip(f"mmdet3d does not refuse mmcv {real}")
    return True


def _real_version() -> Optional[str]:
    from patchcore.plugin import version_of, version_of_provider

    loaded = getattr(sys.modules.get("mmcv"), "__version__", None)
    return loaded or version_of("mmcv") or version_of("mmcv-full") or version_of_provider("mmcv")


def describe_refusal(plan: Plan) -> Iterator[str]:
    """Yield which patch lifts the check of a version that has ended the program, where it was not asked for.

    Args:
        plan: the plan that was applied.
    """
    error = getattr(sys, "last_value", None)  # of the program, which Python has shown
    if not isinstance(error, AssertionError) or "is used but incompatible" not in str(error):
        return
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    library = trace.tb_frame.f_globals.get("__name__") if trace is not None else None
    for patch in (MMCV_VERSION_MMDET, MMCV_VERSION_MMDET3D):
        checks = any(change.target.module == library for change in patch.changes)
        if checks and any(entry.verdict == "off" for entry in plan if entry.patch.name == patch.name):
            yield f"{library} refused mmcv {_real_version()}, --enable {patch.name} lifts that"


def mmcv_version(version: str, *libraries: str) -> pc.Patch:
    """Return a patch that shows a version of mmcv to libraries while they are imported, for plugins of one's own.

    Whether the library works with the mmcv that is installed is for the author of that plugin to know.

    Args:
        version: the value of ``mmcv.__version__`` meanwhile.
        libraries: import packages, ``mmdet`` by default. Where one of them is not installed the patch is skipped.
    """
    shown = libraries or ("mmdet",)
    change = pc.Replace(_VERSION, pc.Literal(version))
    return pc.Patch(
        f"mmcv.version.as_{version}",
        [pc.WhileImporting(library, change) for library in shown],
        summary=f"{' and '.join(shown)} see mmcv {version} while being imported",
        conflicts=[MMCV_VERSION_MMDET, MMCV_VERSION_MMDET3D],
    )


MMCV_VERSION_MMDET = pc.Patch(
    "mmcv.version.mmdet",
    [pc.WhileImporting("mmdet", pc.Replace(_VERSION, factory=newest_for_mmdet))],
    summary="mmdet sees the newest mmcv that it accepts while being imported",
    requires=["mmcv>=2,<3", "mmdet>=3,<4"],
    legacy_names=_LEGACY_NAMES,
    default=False,
)

MMCV_VERSION_MMDET3D = pc.Patch(
    "mmcv.version.mmdet3d",
    [pc.WhileImporting("mmdet3d", pc.Replace(_VERSION, factory=newest_for_mmdet3d))],
    summary="mmdet3d sees the newest mmcv that it accepts while being imported",
    requires=["mmcv>=1.5.2,<3", "mmdet3d>=1.0.0rc6,<2"],
    legacy_names=_LEGACY_NAMES,
    after=[MMCV_VERSION_MMDET],
    when=refused_by_mmdet3d,
)
