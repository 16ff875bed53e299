"""A library to patch, and what is put in the place of its functions and classes."""

from __future__ import annotations

import importlib
import types
from typing import Any

import patchcore

LIBRARY = {
    "lib": "from lib.ops import conv",
    "lib.ops": """
        import functools
        def conv(x): return ("original", x)
        def pool(x): return ("pool", x)
        class Net:
            def forward(self, x): return ("forward", x)
            alias = forward
        """,
    "lib.registry": """
        class Registry:
            def __init__(self): self._module_dict = {}
            def register(self, cls):
                self._module_dict[cls.__name__] = cls
                return cls
        MODELS = Registry()
        """,
}


def new(x: Any) -> Any:
    return ("new", x)


class NewNet:
    pass


def load(make_package: Any, sources: dict[str, str]) -> Any:
    """Make the library and more modules, import them all, and return them by the last part of their names."""
    make_package({**LIBRARY, **sources})
    names = [*LIBRARY, *sources]
    return types.SimpleNamespace(**{name.rpartition(".")[2]: importlib.import_module(name) for name in names})


def replace(target: str, value: Any = new) -> patchcore.Patcher:
    return patchcore.Patcher([patchcore.Patch("p", [patchcore.Replace(target, value)])], strict=True)
