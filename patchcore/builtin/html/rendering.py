"""Pages from Jinja templates: the shared look around the sections of a page."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, Callable, NamedTuple, Optional

from patchcore.builtin.install.command import install_command
from patchcore.errors import SettingsError
from patchcore.objects.modules import find_module
from patchcore.objects.printable import counted, printable

__all__ = ["PageSection", "need_jinja", "render"]

#: Where a long name may go on in the next line: after its dots, colons, slashes and underscores.
_JOINTS = re.compile(r"(?<=[.:/\\,=\-\[(])(?=\w)|(?<=[^\W_]_)(?=[^\W_])")
#: Characters that :func:`printable` may have to replace.
_UNUSUAL = re.compile(r"[^ -~\n\t]+")


class PageSection(NamedTuple):
    """A section of a page.

    Args:
        anchor: its id.
        title: its heading.
        template: the file with its content, which finds this section as ``section``.
        content: for the template.
    """

    anchor: str
    title: str
    template: str
    content: Any = None


def need_jinja(command: str, path: Optional[Path] = None) -> None:
    """Raise unless a page can be rendered. A command calls this before it starts to work.

    Args:
        command: the command that writes the page, ``patchcore report --html``.
        path: the file of the page, the value of ``--html``; its folder must exist.

    Raises:
        SettingsError: Jinja2 is not installed, the message has the line that installs it; or there is no such folder.

    Examples:
        >>> from patchcore import SettingsError
        >>> from patchcore.plugin import need_jinja
        >>> try:
        ...     need_jinja("patchcore prices --html")
        ... except SettingsError:
        ...     print("Jinja2 is not installed")
        ... else:
        ...     print("pages can be made")
        p...
    """
    if not find_module("jinja2"):
        raise SettingsError(f"{command} needs Jinja2, which is not installed: {install_command('patchcore[html]')}")
    if path is not None and not path.absolute().parent.is_dir():
        raise SettingsError(f"--html {path}: there is no directory {path.absolute().parent}")


def render(
    template: str,
    package: str,
    *,
    title: str,
    command: str,
    over: str,
    heading: str,
    summary: str,
    sections: Sequence[PageSection],
    good: Optional[bool] = None,
    filters: Mapping[str, Callable[[Any], str]] = MappingProxyType({}),
    **values: Any,
) -> str:
    """Return a page, as HTML.

    It loads nothing. Its one script adds the search, and is the only one that a browser runs: whatever text the page
    has is escaped, and a script that got into it anyway would not have the right hash.

    Args:
        template: extends ``document.html``.
        package: the package with that template and those of the sections. They can import ``parts.html``.
        title: of the window.
        command: the command that writes the page.
        over: which page this is, above the heading.
        heading: the result in a few words.
        summary: the result in one line.
        sections: in order.
        good: whether the result is good or bad, where it is either.
        filters: filters for all templates.
        values: global names for all templates.

    Raises:
        SettingsError: Jinja2 is not installed.
    """
    need_jinja(command)
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package, "."), PackageLoader(__package__, ".")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = lambda text: Markup("<wbr>").join(_JOINTS.split(text))
    environment.filters.update(filters)
    environment.globals.update(values, counted=counted)
    script = _text("page.js")
    page = environment.get_template(template).render(
        title=title,
        command=command,
        over=over,
        heading=heading,
        summary=summary,
        good=good,
        sections=sections,
        style=Markup(_text("style.css")),
        script=Markup(script),
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    return _UNUSUAL.sub(lambda found: printable(found[0]), page)


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
