"""A page of tables as one HTML file that needs nothing else: the model of a page, and its rendering."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["Page", "Table", "render"]

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 90rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 2rem; }
caption { text-align: left; font-weight: 600; padding: .5rem 0; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem; border-bottom: 1px solid #8884; }
th { font-size: .8em; position: sticky; top: 0; background: Canvas; }
td { white-space: pre-line; overflow-wrap: anywhere; }
td:first-child { font-family: ui-monospace, monospace; }
.missing, .unknown { color: light-dark(#b3261e, #ff8a80); font-weight: 600; }
.supported, .handled { color: light-dark(#1b6e2e, #7fd88f); }
dt { font-weight: 600; } dd { margin: 0 0 .4rem; overflow-wrap: anywhere; }
"""


@dataclass(frozen=True)
class Table:
    """A table.

    Args:
        title: above it.
        columns: headings.
        rows: as many texts each as there are columns; a text may have several lines. One that is a single word is also
            the class of its cell.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Page:
    """A page.

    Args:
        title: its heading.
        summary: one line.
        facts: names with values.
        notes: sentences.
        tables: in order.
    """

    title: str
    summary: str
    facts: Sequence[tuple[str, str]]
    notes: Sequence[str]
    tables: Sequence[Table]


def render(page: Page) -> str:
    """Return a page as HTML."""
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>\n" for name, value in page.facts)
    notes = "".join(f"<li>{escape(note)}</li>\n" for note in page.notes)
    return (
        "<!DOCTYPE html>\n"
        f'<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(page.title)}</title>\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(page.title)}</h1>\n<p>{escape(page.summary)}</p>\n"
        + (f"<ul>\n{notes}</ul>\n" if notes else "")
        + f"<dl>\n{facts}</dl>\n"
        + "".join(map(_render_table, page.tables))
        + "</body>\n</html>\n"
    )


def _render_table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in table.columns)
    body = "".join(f"<tr>{''.join(map(_render_cell, row))}</tr>\n" for row in table.rows)
    caption = f"<caption>{escape(table.title)}</caption>"
    return f"<table>\n{caption}\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n"


def _render_cell(text: str) -> str:
    mark = f' class="{escape(text)}"' if text.isalpha() and text.islower() else ""
    return f"<td{mark}>{escape(text)}</td>"
