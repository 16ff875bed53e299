"""A patch of single objects: the layers that narrow compute in double precision, all others as before."""

from typing import Any, Callable

from torch import Tensor, nn

import patchcore as pc


def narrows(layer: nn.Linear) -> bool:
    """Choose the layers at the end of each MLP."""
    return layer.in_features > layer.out_features


def in_double(original: Callable[..., Tensor], self: nn.Linear, x: Tensor) -> Tensor:
    """Compute in double precision, and return the precision of the input."""
    return nn.functional.linear(x.double(), self.weight.double(), self.bias.double()).to(x.dtype)


@pc.hookimpl
def register_patches() -> tuple[Any, ...]:
    """Return the patch."""
    change = pc.Instances("torch.nn.modules.linear:Linear", in_double, method="forward", where=narrows)
    return (pc.Patch("stack.narrowing_in_double", change),)
