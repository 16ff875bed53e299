"""Files that are no Python: scripts of a shell, settings, lists of requirements, notebooks. They are reported only."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator

from npu_migrate.migrate.findings import Finding
from npu_migrate.migrate.rules import Rule, RuleTable

__all__ = ["has_rules", "lines", "notebook"]


def has_rules(name: str, table: RuleTable) -> bool:
    """Return whether any rule is about files of this name."""
    return any(_is_about(rule, name) for rule in table.of_kind("text"))


def lines(source: str, table: RuleTable, file: str) -> Iterator[Finding]:
    """Yield the findings of rules of kind ``text``, one for each line and rule.

    Args:
        source: the content.
        table: the rules.
        file: its path, for findings.
    """
    name = file.rpartition("/")[2]
    for rule in table.of_kind("text"):
        if not _is_about(rule, name):
            continue
        seen: set[int] = set()
        for pattern in rule.match:
            for found in re.finditer(pattern, source):
                line = source.count("\n", 0, found.start()) + 1
                if line not in seen:
                    seen.add(line)
                    column = found.start() - source.rfind("\n", 0, found.start())
                    level = "review" if rule.level == "auto" else rule.level
                    yield Finding(file, line, column, rule.id, level, found[0].strip(), "", rule.note)


def notebook(source: str, table: RuleTable, file: str) -> Iterator[Finding]:
    """Yield one finding for a notebook in which rules would match: notebooks are not converted."""
    if table.may_be_about(source):
        note = f"notebooks are not converted; run jupyter nbconvert --to script {file}, and migrate the script"
        yield Finding(file, 1, 1, "notebook", "review", file.rpartition("/")[2], "", note)


def _is_about(rule: Rule, name: str) -> bool:
    return any(fnmatch.fnmatch(name, pattern) for pattern in rule.files)
