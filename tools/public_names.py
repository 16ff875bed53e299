"""Write the list of the names of patchcore.plugin in docs/reference.md, from the code.

python tools/public_names.py           # rewrites the list
python tools/public_names.py --check   # exits with 1 where the page is out of date
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from page_tables import update

from patchcore import plugin

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference.md"

_NAMES = re.compile(r"(<!-- names of patchcore.plugin -->\n).*?(<!-- end -->)", re.DOTALL)


def rendered(page: str) -> str:
    """Return the text of the page with its list of names made anew."""
    return _NAMES.sub(lambda match: f"{match[1]}\n{''.join(sections())}\n{match[2]}", page)


def sections() -> Iterator[str]:
    """Yield a section for each task: a row for each class, function and module, and a line with the constants."""
    for number, (task, modules) in enumerate(plugin.TASKS.items()):
        names = sorted((name for names in modules.values() for name in names), key=str.lower)
        described = [name for name in names if _is_described(getattr(plugin, name))]
        rows = [f"| `{name}` | {_summary(getattr(plugin, name))} |\n" for name in described]
        constants = ", ".join(f"`{name}`" for name in names if name not in described)
        yield "\n" * bool(number) + f"### {task}\n\n| name | what it is for |\n|---|---|\n{''.join(rows)}"
        yield f"\nConstants and types: {constants}.\n" if constants else ""


def _is_described(value: Any) -> bool:
    is_class = inspect.isclass(value) and not hasattr(value, "__origin__")  # before 3.11 so is dict[str, int]
    return is_class or inspect.isroutine(value) or inspect.ismodule(value)


def _summary(value: Any) -> str:
    """Return the first paragraph of a docstring, without the markup of Sphinx."""
    text = " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())
    text = re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", text).replace("``", "`")
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(update(PAGE, rendered(PAGE.read_text(encoding="utf-8"))))
