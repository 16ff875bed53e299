"""Pages: one HTML file each, with one look, a search, and nothing that it loads.

Commands that write a page import from here. A command whose result is tables makes a :class:`TablesPage` of them.
"""

from patchcore.builtin.html.rendering import PageSection, need_jinja, render
from patchcore.builtin.html.tables import TablesPage, TextTable

__all__ = ["PageSection", "TablesPage", "TextTable", "need_jinja", "render"]
