"""The section of an audit in the reports of a process. The audit is made once, when the process ends."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from typing import Any

from patchcore.objects.printable import counted
from patchcore.report import Section

__all__ = ["INCOMPLETE", "TITLE", "audit_at_the_end", "sections"]

#: The title of the section.
TITLE = "Audit"
#: The beginning of a line that says why patches may be missing.
INCOMPLETE = "incomplete: "

_RECORDER = "patchcore.builtin.audit.recorder"


class _Result:
    """The section of this process, once there is one."""

    def __init__(self) -> None:
        self.section: tuple[Section, ...] = ()

    def make(self, patcher: Any) -> None:
        """Audit the process; a forked child has the patches of its parent, which audits them."""
        from patchcore.builtin.audit.auditing import audit
        from patchcore.builtin.audit.recorder import RECORDER

        if RECORDER.forked:
            return
        triples = patcher.plugins.gather("known_foreign_patches", _is_triple, "triples of texts")
        found = audit(known=triples)
        rows = [finding.to_dict() for finding in found.findings]
        lines = [found.summary(), *(f"{INCOMPLETE}{text}" for text in found.incomplete), *found.notes]
        lines += (_line(row) for row in rows if not row["known"])
        folded = [row for row in rows if row["known"]]
        if folded:
            names = ", ".join(row["target"] for row in folded)
            lines.append(f"{counted(len(folded), 'patch')} that libraries make in every process: {names}")
        conflicts = len(found.conflicts)
        mark = f"{counted(conflicts, 'conflict')} of foreign patches" if conflicts else ""
        self.section = (Section(TITLE, tuple(lines), mark=mark, data=rows),)


_RESULT = _Result()


def audit_at_the_end(patcher: Any) -> None:
    """Audit this process when it ends, if its record was started; before the last report is written."""
    recorder = getattr(sys.modules.get(_RECORDER), "RECORDER", None)
    if recorder is None or not recorder.started:
        return
    recorder.looking = True
    try:
        # Called before the functions of atexit, one of which writes the report, and in children of multiprocessing.
        threading._register_atexit(_RESULT.make, patcher)  # type: ignore[attr-defined]  # CPython 3.9 to 3.14
    except RuntimeError:  # the interpreter is on its way out
        pass


def sections() -> Iterable[Section]:
    """Return the section of this process; none before its end."""
    return _RESULT.section


def _is_triple(known: Any) -> bool:
    return isinstance(known, tuple) and len(known) == 3 and all(isinstance(text, str) for text in known)


def _line(row: dict[str, str]) -> str:
    """Return a finding in one line: reports of a run show equal lines of several processes once."""
    at = f", at {row['written at']}" if row["written at"] else ""
    guess = " (a guess)" if at and row["writer is"] == "guessed" else ""
    conflict = f"; conflict: {row['conflict']}" if row["conflict"] else ""
    return f"{row['target']}: {row['before']} -> {row['after']}, by {row['by']}{at}{guess}{conflict}"
