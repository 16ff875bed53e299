"""Writes the summary of all patches, in sections, by package and patch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional

from mx_driving_compat.versions import installed_version

__all__ = ["PatchInfo", "SummaryConfig", "summary_text"]

_INFO = 20  # of the module logging, which is not imported for it
_OTHER = "other"
_WIDTH = 78
_IMPORTS = {"skipped_modules": "Skipped Modules", "injected": "Injected Imports", "replaced": "Replaced Imports"}
_MARKS = {"skipped_modules": "-", "injected": "+", "replaced": "*", "applied": "+", "skipped": "~", "failed": "!"}


class PatchInfo(NamedTuple):
    """One line of the summary.

    Args:
        target: of the patch, ``"mmcv.ops.msda.forward"``.
        package: the section it stands in, ``"mmcv"``.
        patch_name: the patch it belongs to.
        reason: why it was skipped or failed, or a remark on how it was applied.
        extra_info: stands behind the name of the package; where there is none, its version does.
    """

    target: str
    package: str
    patch_name: str
    reason: str = ""
    extra_info: str = ""


class SummaryConfig(NamedTuple):
    """Which parts of the summary are shown.

    Args:
        enabled: whether there is one.
        level: the level of :mod:`logging` that it is logged at.
        show_applied, show_skipped, show_failed: whether it has that section; ``None``: unless the action is ``silent``.
        show_import_events: whether it has the sections of skipped, injected and replaced imports.
    """

    enabled: bool = True
    level: int = _INFO
    show_applied: Optional[bool] = None
    show_skipped: Optional[bool] = None
    show_failed: Optional[bool] = None
    show_import_events: bool = True


def summary_text(events: Mapping[str, Sequence[Any]], shown: Mapping[str, bool]) -> str:
    """Return the summary of events, ``""`` where there is nothing to show.

    It begins and ends with a line break, to stand out between other lines of a log.

    Args:
        events: names under ``skipped_modules``, ``injected`` and ``replaced``, :class:`PatchInfo` under ``applied``,
            ``skipped`` and ``failed``.
        shown: whether to show ``imports``, and the patches that were ``applied``, ``skipped`` or ``failed``.
    """
    sections = []
    for kind, mark in _MARKS.items():
        if kind in _IMPORTS and events[kind] and shown["imports"]:
            sections.append([f"  {_IMPORTS[kind]}:", *(f"    {mark} {name}" for name in events[kind])])
        elif kind not in _IMPORTS and events[kind] and shown[kind]:
            sections.append([f"  {kind.capitalize()} Patches:", *_grouped(events[kind], mark)])
    if not sections:
        return ""
    thick, thin = "=" * _WIDTH, "-" * _WIDTH
    body = f"\n{thin}\n".join(map("\n".join, sections))
    return f"\n{thick}\n=== MX-DRIVING PATCHER SUMMARY ===\n{thick}\n{body}\n{thick}\n"


def _grouped(infos: Iterable[PatchInfo], mark: str) -> Iterator[str]:
    packages: dict[str, dict[str, list[PatchInfo]]] = {}
    for info in infos:
        patches = packages.setdefault(info.package or _OTHER, {})
        patches.setdefault(info.patch_name or "unknown", []).append(info)
    for package, patches in sorted(packages.items()):
        extra = next((info.extra_info for entries in patches.values() for info in entries if info.extra_info), None)
        if extra is None and package != _OTHER:
            extra = installed_version(package)
        yield f"    [{package}]" + (f" ({extra})" if extra else "")
        for name, entries in sorted(patches.items()):
            yield f"      {name}:"
            for info in entries:
                yield f"        {mark} {info.target}" + (f" ({info.reason})" if info.reason else "")
