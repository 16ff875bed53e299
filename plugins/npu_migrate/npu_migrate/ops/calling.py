"""``python -m npu_migrate.ops.calling DEVICE MODULE:FUNCTION``: calls one function, as a program."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

from patchcore.plugin import signature_of

__all__ = ["main"]


def main(arguments: Sequence[str]) -> None:
    """Call a function; with ``device=`` where it has a parameter of that name, and the program's arguments as texts.

    Args:
        arguments: device, ``module:function``, and the arguments of the function.

    Raises:
        SystemExit: there is no such function.
    """
    device, name, *texts = arguments
    module, _, attribute = name.partition(":")
    function: Any = getattr(importlib.import_module(module), attribute, None)
    if not callable(function):
        raise SystemExit(f"patchcore ops {name}: {module} has no function {attribute!r}")
    sys.argv = [name, *texts]
    keywords = {"device": device} if "device" in signature_of(function).parameters else {}
    function(*texts, **keywords)


if __name__ == "__main__":
    main(sys.argv[1:])
