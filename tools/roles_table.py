"""Write the table of roles in docs/transformers.md, of the installed transformers.

.nox/transformers/bin/python tools/roles_table.py           # rewrites the table
.nox/transformers/bin/python tools/roles_table.py --check   # exits with 1 where the page is out of date

``nox -s transformers`` makes the environment, with the newest release that the plugin is tested with.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from page_tables import update

from transformers_npu.roles import DOOR, LEFT, PATCHED, Role, roles_of

PAGE = Path(__file__).resolve().parent.parent / "docs" / "transformers.md"
_TABLE = re.compile(r"(<!-- roles -->\n).*?(<!-- end -->)", re.DOTALL)


def rendered(page: str) -> str:
    """Return the text of the page with its table made anew."""
    return _TABLE.sub(lambda match: f"{match[1]}{table()}{match[2]}", page)


def table() -> str:
    """Return a line for each role, and why parts of transformers are left alone."""
    spec = find_spec("transformers")
    assert spec is not None
    assert spec.origin is not None
    folders = sorted(path for path in Path(spec.origin).with_name("models").iterdir() if path.is_dir())
    found = [role for folder in folders for role in roles_of(folder)]
    by_role: defaultdict[str, list[Role]] = defaultdict(list)
    by_reason: defaultdict[tuple[str, str], list[Role]] = defaultdict(list)
    for role in found:
        by_role[role.role].append(role)
        if role.state == LEFT:
            by_reason[role.role, role.reason].append(role)
    lines = [f"Of transformers {version('transformers')}, in classes and functions:\n\n"]
    lines.append("| role | patched | reached by the library's door | models |\n|---|---|---|---|\n")
    for name, roles in sorted(by_role.items(), key=lambda item: item[0].lower()):
        own = [role for role in roles if role.state != LEFT]
        if own:
            counts = [sum(role.state == state for role in own) or "" for state in (PATCHED, DOOR)]
            lines.append(f"| {name} | {counts[0]} | {counts[1]} | {len({role.model for role in own})} |\n")
    lines.append("\n| left alone | number | models | why |\n|---|---|---|---|\n")
    for (name, reason), roles in sorted(by_reason.items(), key=lambda item: (item[0][0].lower(), -len(item[1]))):
        lines.append(f"| {name} | {len(roles)} | {len({role.model for role in roles})} | {reason} |\n")
    return "".join(lines)


def main() -> int:
    """Rewrite the page, or return 1 where it is out of date."""
    return update(PAGE, rendered(PAGE.read_text(encoding="utf-8")))


if __name__ == "__main__":
    sys.exit(main())
