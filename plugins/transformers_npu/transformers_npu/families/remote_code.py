"""Modules of ``trust_remote_code=True``, which transformers executes past Python's import system.

``get_class_in_module`` makes a spec for the file and executes it with the spec's own loader. No finder sees that, so no
patch is applied to the module. The spec that the import system has for the same module has the loader of patchcore.
"""

from __future__ import annotations

import functools
import os
import sys
from types import ModuleType
from typing import Any

import patchcore as pc

__all__ = ["REMOTE_CODE", "spec_of_import", "util_of_imports"]

#: The package in which transformers caches them; its folder is on ``sys.path``.
PACKAGE = "transformers_modules."


def util_of_imports(util: ModuleType) -> ModuleType:
    """Return ``importlib.util`` with another ``spec_from_file_location``, :func:`spec_of_import`.

    Args:
        util: the module.
    """
    made = _Util(util.__name__)
    vars(made).update(_util=util, spec_from_file_location=functools.partial(spec_of_import, util))
    return made


class _Util(ModuleType):
    """A module that gives everything else of another one."""

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_util"], name)


def spec_of_import(util: Any, name: str, location: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Return the spec with which ``import`` loads a module of remote code; the usual one for other modules.

    Args:
        util: ``importlib.util``.
        name: of the module.
        location: its file.
        args: handed on, as ``kwargs``.
        kwargs: see ``args``.
    """
    if name.startswith(PACKAGE) and name not in sys.modules and location is not None:
        spec = util.find_spec(name)
        if spec is not None and spec.origin is not None and os.path.samefile(spec.origin, location):
            return spec
    return util.spec_from_file_location(name, location, *args, **kwargs)


REMOTE_CODE = pc.Patch(
    "transformers.remote_code",
    pc.Replace(
        "transformers.dynamic_module_utils:importlib.util",
        factory="transformers_npu.families.remote_code:util_of_imports",
        only_in="transformers.dynamic_module_utils",
    ),
    summary="models of trust_remote_code are imported in a way that patches see",
    requires="transformers>=4.51",
    needs="torch_npu",
)
