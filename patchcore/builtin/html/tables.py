"""A page of tables, for commands whose result is a table or a few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Optional

from patchcore.builtin.html.rendering import PageSection, render
from patchcore.builtin.shared.files import write_whole
from patchcore.errors import SettingsError

__all__ = ["TablesPage", "TextTable"]


class TextTable(NamedTuple):
    """A table of texts.

    Args:
        title: of its section.
        columns: headings.
        rows: as many texts each as there are columns; the first names the row. A text may have several lines.

    Examples:
        >>> from patchcore.plugin import TextTable
        >>> TextTable("Prices", ("Goods", "Price"), [("tea", "3")]).columns
        ('Goods', 'Price')
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


class TablesPage(NamedTuple):
    """A page of tables.

    Args:
        command: that writes it, ``patchcore ops``.
        title: the subject.
        summary: the result in one line.
        good: whether the result is good or bad, where it is either.
        facts: names with values.
        notes: sentences.
        tables: in order.
        next_commands: the commands to try next.
        kinds: texts that stand out where they are a whole cell, with a status whose colour they get: ``applied``,
            ``pending``, ``failed``, ``skipped``.

    Examples:
        >>> from patchcore.plugin import TablesPage, TextTable
        >>> table = TextTable("Prices", ("Goods", "Price"), [("tea", "3")])
        >>> page = TablesPage("patchcore prices", "Prices", "1 price", good=True, tables=[table])
        >>> page.summary
        '1 price'
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

    def write(self, path: Path) -> None:
        """Write the page to a file.

        Args:
            path: the value of ``--html``.

        Raises:
            SettingsError: the file cannot be written, or Jinja2 is not installed.
        """
        try:
            write_whole(path, self.render())
        except OSError as error:
            raise SettingsError(f"--html {path}: it cannot be written: {error.strerror or error}") from error

    def render(self) -> str:
        """Return the page, as HTML.

        Raises:
            SettingsError: Jinja2 is not installed.
        """
        tables = (
            PageSection(f"table-{number}", shown.title, "table.html", shown)
            for number, shown in enumerate(self.tables, 1)
        )
        return render(
            "document.html",
            __package__,
            title=f"{self.command}: {self.title}",
            command=self.command,
            over=self.command,
            heading=self.title,
            summary=self.summary,
            good=self.good,
            sections=[PageSection("result", "Result", "result.html"), *tables],
            page=self,
        )
