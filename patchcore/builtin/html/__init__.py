"""Pages: one HTML file each, with one look, a search, and nothing that it loads.

What makes a page for its reader imports from here: ``patchcore report --html``, and plugins.
"""

from patchcore.builtin.html.document import document, header
from patchcore.builtin.html.elements import Content, Element, h
from patchcore.builtin.html.parts import badge, code, command, fold, folded, lines, section, table
from patchcore.builtin.html.tables import TablesPage, TextTable

__all__ = [
    "Content",
    "Element",
    "TablesPage",
    "TextTable",
    "badge",
    "code",
    "command",
    "document",
    "fold",
    "folded",
    "h",
    "header",
    "lines",
    "section",
    "table",
]
