"""One call of an operator, and the tensors it may have."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Callable, NamedTuple

import torch

__all__ = ["EVERY", "FLOATS", "INTEGERS", "NUMBERS", "Case", "Inputs"]

#: Names of dtypes. A case is tried on those of them that the vendor takes.
FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
NUMBERS = (*FLOATS, *INTEGERS)
EVERY = (*NUMBERS, "bool")


class Inputs:
    """Tensors of one dtype, by name, the same for the same ``seed``.

    ``x`` and ``y`` are ``[rows, columns]``, ``row`` is ``[columns]``, ``cube`` ``[2, rows, columns]`` and ``cube2``
    ``[2, columns, 3]``, ``image`` ``[2, 4, rows + 5, columns + 4]``, ``weight`` ``[6, 2, 3, 3]``, ``back``
    ``[4, 3, 3, 2]``. ``zero_dim`` has no dimensions, ``empty`` is ``[0, columns]``, ``one`` ``[1, 1]``. ``turned`` is
    ``x`` in another memory layout, ``gaps`` every other column of a wider one. ``mask`` is boolean, ``wide`` of a wider
    dtype, ``index`` ``[rows, columns]`` has indices of rows, ``picks`` three below 4.

    Args:
        dtype: of all but ``mask``, ``wide`` and the indices.
        rows, columns: sizes, 5 at least.
        device: where they are; numbers are drawn on the CPU.
        seed: of the random inputs.
    """

    def __init__(self, dtype: torch.dtype, rows: int, columns: int, device: str = "cpu", seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)

        def make(*shape: int) -> torch.Tensor:
            if dtype.is_floating_point:
                return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
            low, high = (0, 2) if dtype is torch.bool else (0 if dtype is torch.uint8 else -5, 6)
            return torch.randint(low, high, shape, generator=generator).to(dtype)

        tensors = {
            "x": make(rows, columns),
            "y": make(rows, columns),
            "row": make(columns),
            "zero_dim": make(),
            "turned": make(columns, rows).t(),
            "cube": make(2, rows, columns),
            "cube2": make(2, columns, 3),
            "image": make(2, 4, rows + 5, columns + 4),
            "weight": make(6, 2, 3, 3),
            "back": make(4, 3, 3, 2),
            "mask": make(rows, columns) > 0,
            "wide": make(rows, columns).to(torch.float64 if dtype.is_floating_point else torch.int64),
            "index": torch.randint(0, rows, (rows, columns), generator=generator),
            "picks": torch.randint(0, 4, (3,), generator=generator),
            "empty": make(0, columns),
            "one": make(1, 1),
            "gaps": make(rows, 2 * columns)[:, ::2],
        }
        self.tensors = {name: tensor.to(device) for name, tensor in tensors.items()}


class Case(NamedTuple):
    """One call.

    Args:
        operator: name of the overload that is tried, ``aten.add.Tensor``.
        call: takes the tensors of :class:`Inputs` by name (``lambda t: aten.add.Tensor(t.x, t.row)``) and returns one
            tensor or several.
        dtypes: names of those it is tried on, as far as the vendor takes them.
        label: distinguishes cases of one operator.
    """

    operator: str
    call: Callable[[Any], Any]
    dtypes: tuple[str, ...] = FLOATS
    label: str = "plain"

    @property
    def name(self) -> str:
        """The operator and the label, ``aten.add.Tensor[broadcast]``."""
        return f"{self.operator}[{self.label}]"

    def run(self, tensors: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
        """Make the call and return its result."""
        return _flat(self.call(SimpleNamespace(**tensors)))

    def uses(self, tensors: Mapping[str, torch.Tensor]) -> list[str]:
        """Return the names of the tensors that the call takes."""
        noting = _Noting(tensors)
        self.call(noting)
        return list(dict.fromkeys(noting.names))


class _Noting:
    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self._tensors = tensors
        self.names: list[str] = []

    def __getattr__(self, name: str) -> torch.Tensor:
        self.names.append(name)
        return self._tensors[name]


def _flat(value: Any) -> list[torch.Tensor]:
    return [value] if isinstance(value, torch.Tensor) else [each for item in value for each in _flat(item)]
