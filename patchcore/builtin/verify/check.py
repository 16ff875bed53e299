"""Checks: how a patch is compared with the original, as immutable declarations.

A check draws inputs; :mod:`patchcore.builtin.verify.verify` runs the original and the replacement on them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any, Callable, Optional, Union

from patchcore.declare.changes import Skip
from patchcore.declare.declaration import Declaration, as_mapping, as_tuple, check_callables
from patchcore.declare.target import Target
from patchcore.errors import DeclarationError

__all__ = ["DTYPES", "Case", "Check", "Size"]

#: Draws a case, from the same numbers for the original and for the replacement.
Draw = Callable[..., Union["Case", Skip]]

#: The dtypes that a check can be declared for, by torch's names.
DTYPES = ("float64", "float32", "float16", "bfloat16")


class Size(Enum):
    """How large the cases are that a check draws: from the smallest possible to the sizes that models use.

    Examples:
        >>> import random
        >>> import patchcore as pc
        >>> 1 <= pc.Size.SMALL.draw(random.Random(0), small=(1, 4), typical=(64, 256)) <= 4
        True
    """

    SMALL = "small"
    MEDIUM = "medium"
    TYPICAL = "typical"

    def draw(self, rng: random.Random, small: tuple[int, int], typical: tuple[int, int]) -> int:
        """Draw a whole number from the range that belongs to this size.

        Args:
            rng: the source of random numbers.
            small: the lowest and the highest of small cases, both from 1 and included.
            typical: those of typical cases. The medium ones lie at the geometric mean, between both.
        """
        if self is Size.MEDIUM:
            return rng.randint(*(round((low * high) ** 0.5) for low, high in zip(small, typical)))
        return rng.randint(*(small if self is Size.SMALL else typical))


class Case:
    """One call whose results original and replacement must agree on.

    Args:
        call: a function, or a ``torch.nn.Module``. The case is drawn again for each run, and the call is looked up
            again with it, so that a patch has its effect.
        args, kwargs: its arguments. Tensors go to the device that is verified; those that require a gradient get one,
            and so do the parameters of a module.
        reference: called instead of ``call`` for the original if the library has none for the CPU: for example the
            definition of the operator.

    Examples:
        >>> import patchcore as pc
        >>> pc.Case(sum, [[1, 2]])
        <Case <built-in function sum>>
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
    """Inputs for which a patch and the original must agree, drawn at random.

    Args:
        draw: ``draw(random.Random) -> Case``, or the target text of one, which is imported when the patch is verified.
            It imports the library and returns the same case for the same arguments. It may take two more, each of which
            is given by name: ``size``, a :class:`Size`, and ``dtype``, the name of a dtype of ``dtypes``. One that
            takes no size draws cases of one size only; one that takes no dtype has the floating-point tensors of its
            cases, and the parameters of their modules, cast to it. It may return ``Skip("reason")`` if the installed
            library has nothing to compare: the check is then skipped.
        rtol: the largest difference allowed, as a share of the largest absolute value expected in the same tensor; 0
            for equal.
        dtypes: instead of ``rtol``: the allowed difference for each dtype that the check is for, ``{"float32": 1e-5}``,
            of :data:`DTYPES`. Without it, cases are verified as they are drawn.
        name: shown in reports; default the function's own name.

    Raises:
        DeclarationError: an argument is malformed, or ``rtol`` and ``dtypes`` are both given.

    Examples:
        >>> import statistics
        >>> import patchcore as pc
        >>> def numbers(rng):
        ...     return pc.Case(statistics.mean, [[rng.random() for _ in range(3)]])
        >>> mean = pc.Replace("statistics:mean", statistics.fmean)
        >>> pc.Patch("demo.mean", changes=mean, checks=pc.Check(numbers, rtol=1e-12)).checks[0].name
        'numbers'
    """

    draw: Any
    rtol: float
    dtypes: Mapping[str, float]
    name: str

    def __init__(
        self,
        draw: Union[str, Draw],
        *,
        rtol: float = 0.0,
        dtypes: Optional[Mapping[str, float]] = None,
        name: Optional[str] = None,
    ) -> None:
        where = f"Check({draw!r})"
        if isinstance(draw, str):
            draw_or_target: Any = Target.parse(draw)
            own_name: Any = draw_or_target.path[-1]
        else:
            check_callables(where, draw=draw)
            draw_or_target, own_name = draw, getattr(draw, "__name__", "check")
        super().__init__(
            draw=draw_or_target,
            rtol=_as_tolerance(rtol, "rtol", where),
            dtypes=_as_dtypes(dtypes, where),
            name=name or str(own_name),
        )
        if self.rtol and self.dtypes:
            raise DeclarationError(f"{where}: give either rtol or, in dtypes, a tolerance for each dtype")

    @property
    def tolerances(self) -> Mapping[Optional[str], float]:
        """The allowed difference for each dtype; one for ``None``, the dtype as drawn, if none is declared."""
        tolerances: dict[Optional[str], float] = dict(self.dtypes.items())
        return MappingProxyType(tolerances or {None: self.rtol})

    def __str__(self) -> str:
        return self.name


def _as_tolerance(value: Any, what: str, where: str) -> float:
    if not isinstance(value, (int, float)) or not 0 <= value < 1:
        raise DeclarationError(f"{where}: {what} must be a number from 0 to below 1, got {value!r}")
    return float(value)


def _as_dtypes(value: Any, where: str) -> Mapping[str, float]:
    dtypes = as_mapping(value, "dtypes", where)
    for name in dtypes:
        if name not in DTYPES:
            raise DeclarationError(f"{where}: dtypes contains {name!r}; expected {', '.join(DTYPES)}")
    return MappingProxyType({name: _as_tolerance(dtypes[name], f"dtypes[{name!r}]", where) for name in dtypes})
