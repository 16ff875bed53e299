"""Finds the line of a plugin that declares a target."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Optional

from patchcore.builtin.shared.sources import parse_source
from patchcore.declare.target import Target

__all__ = ["place_of"]

#: A plugin declares its patches in few modules.
_MOST_FILES = 100


def place_of(target: Target, file: Optional[str]) -> str:
    """Return ``file:line`` of the text of a target in a plugin, ``""`` if its sources do not have it.

    Args:
        target: of a change.
        file: of the plugin's module; the modules beside it are read, too, if it is in a package.
    """
    if file is None:
        return ""
    first = Path(file)
    others = sorted(first.parent.rglob("*.py"))[:_MOST_FILES] if first.with_name("__init__.py").is_file() else []
    wanted = str(target).replace(":", ".", 1)
    for path in dict.fromkeys([first, *others]):
        try:
            text = path.read_text(encoding="utf-8")
            tree = parse_source(text) if str(target.path[-1]) in text else None
        except (OSError, SyntaxError, ValueError, RecursionError):
            continue
        for node in ast.walk(tree) if tree is not None else ():
            value = node.value if isinstance(node, ast.Constant) else None
            if isinstance(value, str) and value.replace(":", ".", 1) == wanted:
                return f"{path.name}:{node.lineno}"  # type: ignore[attr-defined]  # a constant has a line
    return ""
