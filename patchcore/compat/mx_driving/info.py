"""The text of ``Patcher.print_info``."""

from __future__ import annotations

from patchcore.compat.mx_driving.base import BasePatch
from patchcore.compat.mx_driving.selection import Selection

__all__ = ["info_text"]

_LINE = "=" * 80


def info_text(selection: Selection, *, diff: bool) -> str:
    """Return the patches by the packages they are for, each with what became of it.

    Args:
        selection: of the patcher.
        diff: show also what the replacements change, where source is known.
    """
    by_module: dict[str, list[BasePatch]] = {}
    for patch, _ in selection.patches():
        by_module.setdefault(patch.module or "other", []).append(patch)
    count = sum(map(len, by_module.values()))
    lines = [_LINE, f"Patcher Info ({len(by_module)} modules, {count} patches)", _LINE, ""]
    for module, patches in by_module.items():
        lines.append(f"[{module}] {len(patches)} patches")
        for patch in patches:
            first, *more = patch.get_info(show_diff=diff).split("\n")
            lines += [f"  [{_status(patch, selection)}] {first}", *(f"    {line}" for line in more)]
        lines.append("")
    return "\n".join(lines)


def _status(patch: BasePatch, selection: Selection) -> str:
    if selection.is_disabled(patch):
        return "disabled"
    return "applied" if patch.is_applied else "pending"
