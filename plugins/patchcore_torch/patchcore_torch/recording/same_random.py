"""Random numbers that do not depend on the device: drawn by the CPU's generator, and then moved."""

from __future__ import annotations

import weakref
from typing import Any, Callable

from patchcore import Patch, Wrap
from patchcore_torch.training.loops import LAST

__all__ = ["SAME_RANDOM"]

_CREATING = ("rand", "randint", "randn", "randperm")
_DRAWING = ("bernoulli", "multinomial", "normal", "poisson")
_LIKE = ("rand_like", "randint_like", "randn_like")
_IN_PLACE = ("bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "normal_", "random_", "uniform_")
#: Functions with a mask of random numbers, and the dimensions of the mask: all, or the first two.
_DROPOUTS = {"dropout": False, "dropout1d": True, "dropout2d": True, "dropout3d": True}

_generators: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def _on_cpu(generator: Any) -> Any:
    """Return a generator of the CPU for one of a device: with the same seed, and the same one at each call."""
    if generator is None or generator.device.type == "cpu":
        return generator
    import torch

    if generator not in _generators:
        _generators[generator] = torch.Generator().manual_seed(generator.initial_seed())
    return _generators[generator]


def _moved(arguments: Any) -> Any:
    """Return arguments with tensors and generators of the CPU."""
    import torch

    if isinstance(arguments, torch.Tensor):
        return arguments.detach().cpu()
    if isinstance(arguments, torch.Generator):
        return _on_cpu(arguments)
    return arguments


def _device_of(arguments: tuple[Any, ...], default: Any) -> Any:
    import torch

    tensors = (value for value in arguments if isinstance(value, torch.Tensor))
    return next((tensor.device for tensor in tensors), default)


def _create(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Draw on the CPU and move: the wrapper of functions that return random tensors."""
    import torch

    if "out" in kwargs:
        return kwargs["out"].copy_(_create(original, *args, **{k: v for k, v in kwargs.items() if k != "out"}))
    device = kwargs.pop("device", None)
    if device is None:
        device = _device_of((*args, *kwargs.values()), torch.get_default_device())
    given = [_moved(value) for value in args]
    requires_grad = kwargs.pop("requires_grad", False)
    named = {key: _moved(value) for key, value in kwargs.items() if key != "pin_memory"}
    return original(*given, **named, device="cpu").to(device).requires_grad_(requires_grad)


def _draw(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The same for functions without a parameter ``device``: the result is where their tensors are."""
    import torch

    if "out" in kwargs:
        return kwargs["out"].copy_(_draw(original, *args, **{k: v for k, v in kwargs.items() if k != "out"}))
    device = _device_of((*args, *kwargs.values()), torch.get_default_device())
    named = {key: _moved(value) for key, value in kwargs.items()}
    return original(*(_moved(value) for value in args), **named).to(device)


def _draw_like(original: Callable[..., Any], tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """The same for ``rand_like`` and its kin."""
    device = kwargs.pop("device", None) or tensor.device
    requires_grad = kwargs.pop("requires_grad", False)
    return original(tensor.detach().cpu(), *args, **kwargs).to(device).requires_grad_(requires_grad)


def _fill(original: Callable[..., Any], tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """Draw on the CPU and copy: the wrapper of methods that fill a tensor."""
    import torch

    if tensor.device.type in ("cpu", "meta"):
        return original(tensor, *args, **{key: _moved(value) for key, value in kwargs.items()})
    given = [_moved(value) for value in args]
    named = {key: _moved(value) for key, value in kwargs.items()}
    drawn = original(torch.empty(tensor.shape, dtype=tensor.dtype), *given, **named)
    with torch.no_grad():
        return tensor.copy_(drawn)


def _drop(channels: bool) -> Callable[..., Any]:
    """Return the wrapper of a dropout: the mask is drawn on the CPU, and multiplied on the device.

    Args:
        channels: whether the mask has a value for each channel, not for each element.
    """

    def drop(
        original: Callable[..., Any], input: Any, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Any:
        import torch

        if not training or not 0 < p < 1 or (channels and input.dim() < 3):
            return original(input, p, training, inplace)
        shape = (*input.shape[:2], *([1] * (input.dim() - 2))) if channels else input.shape
        kept = torch.empty(shape).bernoulli_(1 - p).div_(1 - p).to(device=input.device, dtype=input.dtype)
        return input.mul_(kept) if inplace else input * kept

    return drop


#: Draws on the CPU whatever Python code draws. Operators that draw inside (dropout of
#: ``scaled_dot_product_attention``, of ``nn.LSTM``) keep the random numbers of their device.
SAME_RANDOM = Patch(
    "patchcore.same_random",
    [
        *(Wrap(f"torch:{name}", _create) for name in _CREATING),
        *(Wrap(f"torch:{name}", _draw) for name in _DRAWING),
        *(Wrap(f"torch:{name}", _draw_like) for name in _LIKE),
        *(Wrap(f"torch:Tensor.{name}", _fill) for name in _IN_PLACE),
        *(Wrap(f"torch.nn.functional:{name}", _drop(channels)) for name, channels in _DROPOUTS.items()),
    ],
    summary="draws random numbers on the CPU, for every device",
    requires="torch>=2",
    after="*",
    priority=LAST,
    count=False,
)
