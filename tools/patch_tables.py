"""Write the tables of docs/patches.md from what the plugins of this checkout declare.

python tools/patch_tables.py           # rewrites the tables
python tools/patch_tables.py --check   # exits with 1 where the page is out of date

Needs the plugins to be importable, and none of the libraries that they patch.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from page_tables import update

import patchcore as pc

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "patches.md"

#: The packages whose patches have a table, in the order of the page.
PACKAGES = ("mmcv_npu", "mmdet3d_npu", "torch_npu_patches")

#: How many changes of a patch are written out.
MOST = 10

_TABLE = re.compile(r"(<!-- patches of (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rendered(page: str) -> str:
    """Return the text of the page with its tables made anew."""
    return _TABLE.sub(lambda match: match[1] + "\n" + table(match[2]) + "\n" + match[3], page)


def table(package: str) -> str:
    """Return the table of one plugin package: a row for each patch, in order of application."""
    plugin = importlib.import_module(f"{package}.plugin")
    files = dict(_declarations(package))
    lines = [
        "| patch (other names) | what it changes | requires | default | source |",
        "|---|---|---|---|---|",
    ]
    for patch in plugin.PATCHES:
        source = files.get(patch.name)
        if source is None:
            raise LookupError(f"no module of {package} declares {patch.name} as a name of its own")
        lines.append(_row(patch, source))
    return "\n".join(lines) + "\n"


def _row(patch: pc.Patch, source: Path) -> str:
    others = sorted(patch.names - {patch.name})
    name = f"**{patch.name}**" + (f" ({', '.join(others)})" if others else "")
    changes = list(dict.fromkeys(f"{change.kind} `{change.target}`" for change in patch.changes))
    if len(changes) > MOST:
        changes[MOST - 1 :] = [f"and {len(changes) - MOST + 1} more: `patchcore list --verbose`"]
    requires = ", ".join([*patch.requires, *(f"module {module}" for module in patch.needs)])
    default = "yes" if patch.default else "no"
    path = source.relative_to(ROOT)
    link = f"[{source.name}](../{path.as_posix()})"
    return f"| {name}: {patch.summary} | {'<br>'.join(changes)} | {requires or '-'} | {default} | {link} |"


def _declarations(package: str) -> Iterator[tuple[str, Path]]:
    """Yield each patch's name with the file of a module that has it; one that gathers patches of others goes first."""
    modules = [(name, module) for name, module in sys.modules.items() if name.partition(".")[0] == package]
    for name, module in sorted(modules, key=lambda item: (not hasattr(item[1], "__path__"), item[0])):
        for value in list(vars(module).values()):
            for patch in value if isinstance(value, tuple) else (value,):
                if isinstance(patch, pc.Patch) and name != f"{package}.plugin":
                    yield patch.name, Path(str(module.__file__))


def main() -> int:
    """Rewrite the page, or say whether it is up to date."""
    return update(PAGE, rendered(PAGE.read_text(encoding="utf-8")))


if __name__ == "__main__":
    sys.exit(main())
