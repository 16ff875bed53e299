"""Write the lists of docs/patches.md from what the plugins of this checkout declare.

python tools/patch_lists.py           # rewrites the lists
python tools/patch_lists.py --check   # exits with 1 where the page is out of date

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

#: The packages whose patches are listed, in the order of the page.
PACKAGES = ("mmcv_npu", "mmdet3d_npu", "torch_npu_patches", "torch_markers", "transformers_npu", "diffusers_npu")

_PATCHES = re.compile(r"(<!-- patches of (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rendered(page: str) -> str:
    """Return the text of the page with its lists of patches made anew."""
    return _PATCHES.sub(lambda match: f"{match[1]}\n{sections(match[2])}\n{match[3]}", page)


def sections(package: str) -> str:
    """Return a section for each patch of a plugin package, in order of application."""
    plugin = importlib.import_module(f"{package}.plugin")
    files = dict(_declarations(package))
    patches = getattr(plugin, "PATCHES", None) or plugin.register_patches()
    missing = [patch.name for patch in patches if patch.name not in files]
    if missing:
        raise LookupError(f"no module of {package} declares {', '.join(missing)} as a name of its own")
    return "\n".join(_section(patch, files[patch.name]) for patch in patches)


def _section(patch: pc.Patch, source: Path) -> str:
    others = sorted(patch.names - {patch.name})
    requires = ", ".join(f"`{each}`" for each in [*patch.requires, *(f"module {module}" for module in patch.needs)])
    facts = [
        f"Default: {'yes' if patch.default else 'no'}.",
        f"Requires: {requires or 'nothing'}.",
        *([f"Other names: {', '.join(f'`{name}`' for name in others)}."] if others else []),
        f"Source: [{source.name}](../{source.relative_to(ROOT).as_posix()}).",
    ]
    changes = dict.fromkeys(f"- {change.kind} `{change.subject(change.target)}`\n" for change in patch.changes)
    return f"### {patch.name}\n\n{patch.summary}.\n\n{' '.join(facts)}\n\n{''.join(changes)}"


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
