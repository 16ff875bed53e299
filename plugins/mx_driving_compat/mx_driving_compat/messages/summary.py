"""Writes the summary of all patches, in sections, by package and patch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Optional

from mx_driving_compat.versions import installed_version

__all__ = ["Events", "PatchInfo", "SummaryConfig", "summary_text"]

_INFO = 20  # of the module logging, which is not imported for it
_OTHER = "other"
_WIDTH = 78


class PatchInfo(NamedTuple):
    """One line of the summary.

    Args:
        target: what is patched, ``"mmcv.ops.msda.forward"``.
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


class SummaryConfig:
    """Which parts of the summary are shown.

    Args:
        enabled: whether there is one.
        level: the level of :mod:`logging` that it is logged at.
        show_applied, show_skipped, show_failed: whether it has that section; ``None``: unless the action is ``silent``.
        show_import_events: whether it has the sections of skipped, injected and replaced imports.
    """

    def __init__(
        self,
        enabled: bool = True,
        level: int = _INFO,
        show_applied: Optional[bool] = None,
        show_skipped: Optional[bool] = None,
        show_failed: Optional[bool] = None,
        show_import_events: bool = True,
    ) -> None:
        self.enabled = enabled
        self.level = level
        self.show_applied = show_applied
        self.show_skipped = show_skipped
        self.show_failed = show_failed
        self.show_import_events = show_import_events


class Events:
    """The events since the last summary."""

    def __init__(self) -> None:
        self.applied: list[PatchInfo] = []
        self.skipped: list[PatchInfo] = []
        self.failed: list[PatchInfo] = []
        self.skipped_modules: list[str] = []
        self.injected_imports: list[str] = []
        self.replaced_imports: list[str] = []


def summary_text(events: Events, *, applied: bool, skipped: bool, failed: bool, imports: bool) -> str:
    """Return the summary of ``events``, ``""`` where there is nothing to show.

    It begins and ends with a line break, to stand out between other lines of a log.

    Args:
        events: what happened.
        applied, skipped, failed: whether to show the patches that were.
        imports: whether to show what was done to imports.
    """
    sections = list(_sections(events, applied=applied, skipped=skipped, failed=failed, imports=imports))
    if not sections:
        return ""
    thick, thin = "=" * _WIDTH, "-" * _WIDTH
    lines = ["", thick, "=== MX-DRIVING PATCHER SUMMARY ===", thick]
    for i, section in enumerate(sections):
        lines += [thin, *section] if i else section
    return "\n".join([*lines, thick, ""])


def _sections(events: Events, *, applied: bool, skipped: bool, failed: bool, imports: bool) -> Iterable[Sequence[str]]:
    for title, mark, names in (
        ("Skipped Modules", "-", events.skipped_modules),
        ("Injected Imports", "+", events.injected_imports),
        ("Replaced Imports", "*", events.replaced_imports),
    ):
        if imports and names:
            yield [f"  {title}:", *(f"    {mark} {name}" for name in names)]
    for title, mark, patches, shown in (
        ("Applied Patches", "+", events.applied, applied),
        ("Skipped Patches", "~", events.skipped, skipped),
        ("Failed Patches", "!", events.failed, failed),
    ):
        if shown and patches:
            yield [f"  {title}:", *_grouped(patches, mark)]


def _grouped(infos: Iterable[PatchInfo], mark: str) -> Iterable[str]:
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
