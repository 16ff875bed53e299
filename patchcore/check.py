"""Checks: how a patch is compared with what it replaces, as immutable declarations.

A check draws inputs; :mod:`patchcore.verify` runs the original and the replacement on them. Nothing here needs torch.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional, Union

from patchcore.declaration import Declaration, as_mapping, as_tuple, check_callables
from patchcore.errors import DeclarationError
from patchcore.target import Target

__all__ = ["Case", "Check"]

#: What a check is given to draw from: the same numbers for the original and for the replacement.
Draw = Callable[[random.Random], "Case"]


class Case:
    """One call whose results original and replacement must agree on.

    Args:
        call: a function, or a ``torch.nn.Module``. It is looked up anew for each run, by drawing the case again, so
            that it is what the program would call then.
        args, kwargs: its arguments. Tensors go to the device that is verified; those that require a gradient get one,
            and so do the parameters of a module.
        reference: called instead of ``call`` where the original is wanted and the library has none for the CPU: the
            definition of the operator, say.
    """

    def __init__(
        self,
        call: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Optional[Mapping[str, Any]] = None,
        *,
        reference: Optional[Callable[..., Any]] = None,
    ) -> None:
        where = f"Case({call!r})"
        check_callables(where, call=call, reference=reference)
        self.call: Any = call
        self.args = as_tuple(args, "args", where)
        self.kwargs = as_mapping(kwargs, "kwargs", where)
        self.reference = reference

    def __repr__(self) -> str:
        return f"<Case {self.call!r}>"


class Check(Declaration):
    """Inputs for which a patch and what it replaces must agree, drawn at random.

    Args:
        draw: ``draw(random.Random) -> Case``, or the target text of one, which is imported when the patch is verified.
            It imports the library and returns the same case for the same state of its argument.
        rtol: the largest difference allowed, as a share of the largest absolute value expected in the same tensor; 0
            for equal.
        name: shown in reports; default the function's own name.

    Raises:
        DeclarationError: an argument is malformed.
    """

    draw: Any
    rtol: float
    name: str

    def __init__(self, draw: Union[str, Draw], *, rtol: float = 0.0, name: Optional[str] = None) -> None:
        where = f"Check({draw!r})"
        if isinstance(draw, str):
            draw_or_target: Any = Target.parse(draw)
            own_name: Any = draw_or_target.path[-1]
        else:
            check_callables(where, draw=draw)
            draw_or_target, own_name = draw, getattr(draw, "__name__", "check")
        if not isinstance(rtol, (int, float)) or not 0 <= rtol < 1:
            raise DeclarationError(f"{where}: rtol is a number from 0 to below 1, got {rtol!r}")
        super().__init__(draw=draw_or_target, rtol=float(rtol), name=name or str(own_name))

    def __str__(self) -> str:
        return self.name
