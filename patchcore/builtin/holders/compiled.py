"""Validators and serializers of pydantic: a compiled schema calls the function that a class had when it was made."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from typing import Any

from patchcore.objects.modules import mro_lookup
from patchcore.planning.plan import PlannedPatch
from patchcore.report import Remark

__all__ = ["remarks_on"]

#: The tables of ``BaseModel.__pydantic_decorators__`` whose functions a schema holds; that of computed fields has none.
_TABLES = (
    *("validators", "field_validators", "root_validators", "model_validators"),
    *("field_serializers", "model_serializers"),
)


def remarks_on(entry: PlannedPatch) -> Iterator[Remark]:
    """Yield a remark on each target of an applied patch whose replacement a schema of pydantic does not call.

    ``BaseModel.__pydantic_decorators__``, which dataclasses of pydantic have too, names the validators and serializers
    (API documentation of pydantic 2, "BaseModel").

    Args:
        entry: the patch.
    """
    for target in entry.targets:
        *path, name = target.path
        owner = sys.modules.get(target.module)
        for step in path:
            owner = getattr(owner, str(step), None) if isinstance(step, str) else None
        if not path or not isinstance(owner, type) or not isinstance(name, str):
            continue
        decorators = getattr(owner, "__pydantic_decorators__", None)
        for table in _TABLES:
            known = getattr(decorators, table, {}).get(name)
            if known is not None and _function(known.func) is not _function(mro_lookup(owner, name)):
                original = getattr(_function(known.func), "__qualname__", name)  # of a base, perhaps
                text = (
                    f"{target}: no effect: pydantic calls the {original} that there was when it made the class; "
                    f"patch {original} with everywhere=True, which writes the body of the function"
                )
                yield Remark(text, logging.WARNING, topic="pydantic")
                break


def _function(raw: Any) -> Any:
    return getattr(raw, "__func__", raw)
