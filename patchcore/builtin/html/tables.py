"""A page of tables, for commands whose result is a table or a few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

from patchcore.builtin.html.document import document, header
from patchcore.builtin.html.elements import Content, Element, h
from patchcore.builtin.html.parts import badge, code, command, lines, section, table
from patchcore.objects.printable import counted

__all__ = ["TablesPage", "TextTable"]


class TextTable(NamedTuple):
    """A table of texts.

    Args:
        title: of its section.
        columns: headings.
        rows: as many texts each as there are columns; the first names the row. A text may have several lines.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


class TablesPage(NamedTuple):
    """A page of tables.

    Args:
        command: that writes it, ``patchcore ops``.
        title: what it is about.
        summary: the result in one line.
        good: whether the result is good or bad, where it is either.
        facts: names with values.
        notes: sentences.
        tables: in order.
        next_commands: what to type next.
        kinds: texts that stand out where they are a whole cell, with a status whose colour they get: ``applied``,
            ``pending``, ``failed``, ``skipped``.
    """

    command: str
    title: str
    summary: str
    good: Optional[bool] = None
    facts: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()
    tables: Sequence[TextTable] = ()
    next_commands: Sequence[str] = ()
    kinds: Mapping[str, str] = {}

    def render(self) -> str:
        """Return the page, as HTML."""
        head = header(self.command, self.title, h("p", self.summary, class_="sizes"), good=self.good)
        facts = [(name, lines(value)) for name, value in self.facts]
        result = section(
            "result",
            "Result",
            table("What was looked at", ("Fact", "Value"), facts, class_="facts") if facts else None,
            h("ul", [h("li", note) for note in self.notes]) if self.notes else None,
            [h("p", "Next:"), [command(text) for text in self.next_commands]] if self.next_commands else None,
        )
        sections = [result, *(self._section(number, shown) for number, shown in enumerate(self.tables, 1))]
        return document(f"{self.command}: {self.title}", head, sections, written_by=self.command)

    def _section(self, number: int, shown: TextTable) -> Element:
        columns = [column.capitalize() for column in shown.columns]
        rows = [[code(name), *map(self._cell, others)] for name, *others in shown.rows]
        return section(f"table-{number}", shown.title, table(counted(len(rows), "row"), columns, rows))

    def _cell(self, text: str) -> Content:
        return badge(text, self.kinds[text]) if text in self.kinds else lines(text)
