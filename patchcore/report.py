"""The records of an apply or a revert: one per patch and one per change. Text and JSON are two views of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Optional

from patchcore.declare.declaration import Declaration
from patchcore.objects.printable import counted, printable
from patchcore.process import Made

__all__ = [
    "FAILURES",
    "SCHEMA_VERSION",
    "ChangeRecord",
    "PatchRecord",
    "Problem",
    "Remark",
    "Report",
    "Section",
    "count_statuses",
]

#: Version of the JSON view; raised when a key changes its meaning or is removed.
SCHEMA_VERSION = 1

APPLIED = "applied"
PENDING = "pending"
SKIPPED = "skipped"
FAILED = "failed"
REVERTED = "reverted"


class ChangeRecord(NamedTuple):
    """The outcome of one change.

    Args:
        kind: ``replace``, ``wrap``, ``register``, ``call``, ``stub``, ``replace-import``, ``inject``,
            ``while-importing``.
        target: as declared, with its module.
        status: ``applied``, ``pending``, ``skipped``, ``failed`` or ``reverted``.
        reason: why it is not applied, or a remark on how it is.
        slots: the places that were written, ``module:path``.
        rebound: by-value references that were bound to the replacement.
        kept: by-value references left alone because the replacement itself reads them.
        unreachable: places that hold the original and are not rebound: attributes of objects, closures, containers.
        calls: how often the target was called through this change in this process; ``None`` where that is not counted.
        replaced: how many of these calls ``when_call`` has sent to the replacement, the others to the original;
            ``None`` without ``when_call``.
        missed: how its module was imported without patchcore seeing it, so that the change was made late or not at all;
            empty where that did not happen.

    Examples:
        >>> import patchcore as pc
        >>> patch = pc.Patch("demo.mean", changes=pc.Replace("statistics:mean", min))
        >>> with pc.Patcher([patch]) as patcher:
        ...     record = patcher.report()["demo.mean"].changes[0]
        >>> record.kind, record.target, record.status
        ('replace', 'statistics:mean', 'applied')
    """

    kind: str
    target: str
    status: str
    reason: str = ""
    slots: tuple[str, ...] = ()
    rebound: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    unreachable: tuple[str, ...] = ()
    calls: Optional[int] = None
    replaced: Optional[int] = None
    missed: str = ""


class PatchRecord(NamedTuple):
    """The outcome of one patch.

    Args:
        name: of the patch.
        status: ``applied``, ``pending``, ``skipped``, ``failed`` or ``reverted``.
        reason: why it is not applied, or was applied late.
        plugin, distribution, version: who contributes it; ``distribution`` is ``None`` for local code.
        changes: one record per change, in order.
        remarks: remarks of plugins, for example on targets that have changed since their fingerprints were recorded.
        asked_for: false for a patch that is skipped and that no user named, and for one whose failure is ignored;
            summaries do not count it.

    Examples:
        >>> import patchcore as pc
        >>> patch = pc.Patch("shop.price", changes=pc.Replace("shop:price", len))
        >>> with pc.Patcher([patch]) as patcher:
        ...     record = patcher.report()["shop.price"]
        >>> record.status, record.reason
        ('skipped', 'shop is not installed')
    """

    name: str
    status: str
    reason: str
    plugin: str
    distribution: Optional[str]
    version: Optional[str]
    changes: tuple[ChangeRecord, ...] = ()
    remarks: tuple[str, ...] = ()
    asked_for: bool = True

    @property
    def calls(self) -> Optional[int]:
        """How often its targets were called, ``None`` where none of them is counted."""
        counts = [change.calls for change in self.changes if change.calls is not None]
        return sum(counts) if counts else None

    @property
    def never_hit(self) -> bool:
        """True when it is or was in force, its calls were counted, and there were none."""
        return self.status in (APPLIED, REVERTED) and self.calls == 0

    @property
    def missed(self) -> bool:
        """True when a module was imported without patchcore seeing it, so that the patch is late or still waits."""
        return any(change.missed for change in self.changes)

    @property
    def origin(self) -> str:
        """Plugin, distribution and version in one phrase."""
        return f"{self.distribution} {self.version or ''}".strip() if self.distribution else self.plugin

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON view as a dictionary, with a list of dictionaries for the changes."""
        return {**self._asdict(), "changes": [change._asdict() for change in self.changes]}


#: Patches that failed, by where their Patcher was made and by name. The Patcher may be gone: nothing of it is in force.
FAILURES: dict[tuple[Made, str], PatchRecord] = {}


class Problem(NamedTuple):
    """A plugin that failed to load, to register or inside a hook.

    Args:
        plugin, distribution, version: whose failure it is.
        where: the step that failed, ``load``, ``register_patches``, ...
        message: one line.
        traceback: the full text, for logs.
    """

    plugin: str
    where: str
    message: str
    distribution: Optional[str] = None
    version: Optional[str] = None
    traceback: str = ""

    def __str__(self) -> str:
        who = f"plugin {self.plugin}" + (
            f" ({self.distribution} {self.version or ''})".replace(" )", ")") if self.distribution else ""
        )
        return f"{who}: {self.where} failed: {self.message}"


class Section(NamedTuple):
    """A section that a plugin adds to the reports of a process; see the hook ``report_sections``.

    Args:
        title: the subject, one or two words.
        lines: for people.
        mark: one or two words that no reader of the outcome may miss; every summary ends with them.
        data: for programs: dictionaries, lists, texts, numbers. A list of flat dictionaries is a table on the page of
            ``patchcore report --html``, in the place of the lines, and ``count`` is added up over the processes.
            If all have ``file`` and ``line``, text and page have one row for each line of the program, and count these
            lines by ``kind``.
        counts: how many patches that the plugin applies itself have which status; summaries have it with their counts.

    Examples:
        >>> import patchcore as pc
        >>> class Plugin:
        ...     @pc.hookimpl
        ...     def report_sections(self):
        ...         return [pc.Section("Prices", lines=("3 prices were read",), mark="stale prices")]
        >>> patcher = pc.Patcher()
        >>> patcher.plugins.add(Plugin(), "demo")
        >>> patcher.apply().summary()
        'no patches (stale prices)'
    """

    title: str
    lines: tuple[str, ...] = ()
    mark: str = ""
    data: Any = None
    counts: str = ""


class Remark(NamedTuple):
    """A remark of a plugin on a patch in this environment; see the hook ``remarks``.

    Args:
        text: one line, for people; empty for a remark that only programs read.
        level: the level of :mod:`logging` at which it is logged.
        finding: True where ``patchcore check`` fails because of it. If ``level`` is that of a warning or higher, the
            patch is also refused under the policy ``raise``.
        advice: the step that mends a finding, a sentence without its full stop.
        topic: the subject in one word: the kind of the finding, and the key of ``data`` in JSON.
        data: for programs: a list of dictionaries.

    Examples:
        >>> import patchcore as pc
        >>> pc.Remark("shop 3 is not tested", finding=True, advice="Install shop 2").finding
        True
    """

    text: str
    level: int = 20
    finding: bool = False
    advice: str = ""
    topic: str = "remark"
    data: tuple[Mapping[str, Any], ...] = ()


def count_statuses(records: Iterable[PatchRecord]) -> str:
    """Return how many of ``records`` have which status: ``2 applied, 1 failed``."""
    counts = Counter([record.status for record in records])
    statuses = [status for status in (APPLIED, PENDING, SKIPPED, FAILED, REVERTED) if counts[status]]
    return ", ".join([f"{counts[status]} {status}" for status in statuses])


class Report(Declaration):
    """The outcome of an apply or a revert.

    Args:
        patches: one record per patch, in the order of the plan.
        problems: plugins that failed.
        notes: things to know that belong to no single change, such as values that other code put on top of a patch.
        environment: facts about this process: interpreter, process id, rank.
        sections: the sections that plugins add.

    Examples:
        >>> import patchcore as pc
        >>> with pc.Patcher([pc.Patch("demo.mean", changes=pc.Replace("statistics:mean", min))]) as patcher:
        ...     report = patcher.report()
        >>> report["demo.mean"].status, report.summary()
        ('applied', '1 applied')
    """

    patches: tuple[PatchRecord, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    environment: Mapping[str, Any]
    sections: tuple[Section, ...]

    def __init__(
        self,
        patches: tuple[PatchRecord, ...],
        problems: tuple[Problem, ...] = (),
        notes: tuple[str, ...] = (),
        environment: Optional[Mapping[str, Any]] = None,
        sections: tuple[Section, ...] = (),
    ) -> None:
        super().__init__(
            patches=patches, problems=problems, notes=notes, environment=environment or {}, sections=sections
        )

    def __getitem__(self, name: str) -> PatchRecord:
        """Return the record of patch ``name``.

        Raises:
            KeyError: there is none; the message lists the names.
        """
        for record in self.patches:
            if record.name == name:
                return record
        raise KeyError(f"no patch {name!r} in this report; it has {', '.join(r.name for r in self.patches) or 'none'}")

    def with_status(self, status: str) -> tuple[PatchRecord, ...]:
        """Return the records whose status is ``status``."""
        return tuple(record for record in self.patches if record.status == status)

    @property
    def ok(self) -> bool:
        """True when no patch and no plugin failed."""
        return not self.problems and not self.with_status(FAILED)

    @property
    def never_hit(self) -> tuple[str, ...]:
        """The names of the applied patches whose counted targets were not called so far."""
        return tuple(record.name for record in self.patches if record.never_hit)

    def summary(self, *, never_hit: bool = False) -> str:
        """Return one line: how many patches that were asked for have which status, and the marks of the sections.

        Args:
            never_hit: also name the patches that were never hit. Set it at the end of a program, not before.
        """
        counts = count_statuses([record for record in self.patches if record.asked_for])
        texts = (counts, *(section.counts for section in self.sections))
        text = "; ".join(filter(None, texts)) or ("nothing applied" if self.patches else "no patches")
        if self.problems:
            text += f"; {counted(len(self.problems), 'plugin problem')}"
        if never_hit and self.never_hit:
            text += f"; never hit in this process: {', '.join(self.never_hit)}"
        missed = [record.name for record in self.patches if record.missed]
        if missed:
            text += f"; not patched on import: {', '.join(missed)}"
        marks = ", ".join(section.mark for section in self.sections if section.mark)
        return f"{text} ({marks})" if marks else text

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON view as plain dictionaries and lists, with ``schema_version``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "summary": self.summary(),
            "patches": [record.to_dict() for record in self.patches],
            "problems": [problem._asdict() for problem in self.problems],
            "notes": list(self.notes),
            "environment": dict(self.environment),
            "sections": [section._asdict() for section in self.sections],
            "never_hit": list(self.never_hit),
        }

    def to_json(self) -> str:
        """Return the JSON view as text."""
        from patchcore.stdlib import json  # most programs do not need it

        return json.dumps(self.to_dict(), indent=2)

    def __str__(self) -> str:
        lines = [f"patchcore: {self.summary()}"]
        for patch in (patch for patch in self.patches if patch.asked_for):
            lines.append(
                f"  {patch.status:<8} {patch.name} [{patch.origin}]{': ' + patch.reason if patch.reason else ''}"
            )
            told = [_change_lines(change) for change in patch.changes]
            # of many changes that have only the patch's status to show, three are listed and the rest counted
            rest = [one for one in told if len(one) == 1 and one[0].endswith(f": {patch.status}")][3:]
            lines += (line for one in told if one not in rest or len(rest) < 6 for line in one)
            lines += [f"           {len(rest)} more: {patch.status}"] if len(rest) > 5 else []
            lines += (f"           {remark}" for remark in patch.remarks)
        left = sum(not patch.asked_for for patch in self.patches)
        lines += [f"  {counted(left, 'more patch')} skipped; patchcore list --all shows why"] if left else []
        if self.never_hit:
            lines.append(f"  never hit: {', '.join(self.never_hit)}")
        lines += (f"  problem: {problem}" for problem in self.problems)
        lines += (f"  note: {note}" for note in self.notes)
        for section in self.sections:
            lines += (f"  {section.title}:", *(f"    {line}" for line in section.lines))
        return printable("\n".join(lines))


def _change_lines(change: ChangeRecord) -> list[str]:
    reason = f" ({change.reason})" if change.reason else ""
    lines = [f"           {change.kind} {change.target}: {change.status}{reason}"]
    others = [slot for slot in change.slots if slot != change.target]
    for label, places in (
        ("wrote", others),
        ("rebound", change.rebound),
        ("kept", change.kept),
        ("unreachable", change.unreachable),
    ):
        if places:
            lines.append(f"             {label} {', '.join(places)}")
    if change.calls is not None:
        ways = "" if change.replaced is None else f", {change.replaced} to the replacement"
        lines.append(f"             {counted(change.calls, 'call')}{ways}")
    return lines
