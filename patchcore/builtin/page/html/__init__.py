"""One self-contained page about a run: the processes' reports -> view model -> sections -> page.

Whatever text reports have is escaped. The same reports make the same page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Optional

from patchcore.builtin.files import write_whole
from patchcore.builtin.html import document
from patchcore.builtin.page.html.chart import timeline_section
from patchcore.builtin.page.html.compared import compared_section
from patchcore.builtin.page.html.environment import environment_section, options_section
from patchcore.builtin.page.html.parts import Links
from patchcore.builtin.page.html.patches import patches_section, references_section
from patchcore.builtin.page.html.taking_part import processes_section
from patchcore.builtin.page.html.targets import targets_section
from patchcore.builtin.page.html.told import told_section
from patchcore.builtin.page.html.verdict import headline, verdict_section
from patchcore.builtin.page.merge import Finding, Process
from patchcore.builtin.page.model import view_of
from patchcore.errors import SettingsError

__all__ = ["make_page", "write_page"]


def make_page(
    processes: Sequence[Process], unreadable: Iterable[Finding] = (), compared: Optional[Sequence[Process]] = None
) -> str:
    """Return the page, as HTML.

    Args:
        processes, unreadable: at least one process; see :class:`patchcore.builtin.page.merge.Reports`.
        compared: the processes of another run, to show what differs.
    """
    run = view_of(processes, unreadable)
    links = Links(run)
    sections = [
        verdict_section(run, links),
        None if compared is None else compared_section(compared, processes, links),
        told_section(run, links),
        processes_section(run, links),
        timeline_section(run, links),
        patches_section(run, links),
        targets_section(run, links),
        references_section(run, links),
        environment_section(run),
        options_section(run),
    ]
    title = f"patchcore: run {', '.join(sorted({process.run for process in processes}))}"
    return document(title, headline(run), sections, written_by="patchcore report --html")


def write_page(
    processes: Sequence[Process],
    path: Path,
    unreadable: Iterable[Finding] = (),
    compared: Optional[Sequence[Process]] = None,
) -> None:
    """Write the page to ``path``, whole or not at all.

    Args:
        processes, unreadable, compared: see :func:`make_page`.
        path: of the page.

    Raises:
        SettingsError: it cannot be written there.
    """
    try:
        write_whole(path, make_page(processes, unreadable, compared))
    except OSError as error:
        raise SettingsError(f"the page cannot be written to {path}: {error.strerror or error}") from error
