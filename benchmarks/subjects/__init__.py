"""The subjects: a module each, whose ``rows(budget)`` measures and returns the rows of the table.

A subject runs in a process of its own, so that what one imports is not in another's way.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Callable, Optional

from benchmarks.rows import Budget, Row

__all__ = ["SUBJECTS", "THREADED", "missing", "rows_of"]

#: The name of each subject on the command line, and its module.
SUBJECTS = {
    "import": "importing_patchcore",
    "compat-patches": "compat_patches",
    "list": "listing",
    "check": "checking",
    "calls": "calls",
    "apply": "applying",
    "references": "reference_pass",
    "on-import": "on_import",
    "rewriting": "rewriting",
    "audit": "auditing",
    "record": "recording",
    "modeling": "modeling_import",
    "child-process": "child_processes",
    "run-options": "run_options",
    "report": "report_of_many",
    "emulated-device": "emulated_device",
    "fake-cann": "fake_cann",
    "counted-requests": "counted_requests",
    "graph": "graph_steps",
}
#: Subjects that use as many threads as OMP_NUM_THREADS says, one where it says nothing; all others use one.
THREADED = frozenset({"graph"})


def rows_of(name: str) -> Callable[[Budget], list[Row]]:
    """Return the function that measures subject ``name``."""
    return importlib.import_module(f"{__name__}.{SUBJECTS[name]}").rows  # type: ignore[no-any-return]


def missing(*modules: str) -> Optional[str]:
    """Return why a comparison that needs ``modules`` (top-level names) cannot be made, ``None`` where it can."""
    absent = [name for name in modules if importlib.util.find_spec(name) is None]
    return f"{' and '.join(absent)} not installed" if absent else None
