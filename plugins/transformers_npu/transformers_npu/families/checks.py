"""Random calls of one function of transformers for each formula in ``families.json``, for ``patchcore verify``.

The call is that of the library's own function, in the first model of the family that can be imported here.
"""

from __future__ import annotations

import functools
import importlib
import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable, Union

import patchcore as pc
from patchcore.plugin import module_file, version_of
from transformers_npu.families.patching import Family, families
from transformers_npu.families.reading import Item, read_items
from transformers_npu.tolerances import DTYPES

__all__ = ["checks_of", "examples_of"]


def checks_of(kernels: str) -> tuple[pc.Check, ...]:
    """Return a check for each formula that a kernel of one module computes.

    Args:
        kernels: a module of :mod:`transformers_npu.kernels`: ``norms``.
    """
    own = [family for family in families().values() if family.kernel.partition(":")[0] == kernels]
    return tuple([pc.Check(_drawing(family), dtypes=DTYPES, name=family.examples[0]) for family in own])


def _drawing(family: Family) -> Callable[..., Union[pc.Case, pc.Skip]]:
    def draw(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> Union[pc.Case, pc.Skip]:
        reason = f"transformers {version_of('transformers')} has none of this formula"
        for example in examples_of(family):
            try:
                importlib.import_module(example[0])
            except ImportError as error:  # some models need libraries that transformers does not bring
                reason = f"{example[0]} cannot be imported: {error}"
            else:
                return _CASES[family.kernel.partition(":")[0]](rng, size, family, example)
        return pc.Skip(reason)

    return draw


def examples_of(family: Family) -> Iterator[tuple[str, Item]]:
    """Yield the module and the function of each example that the installed transformers has.

    Args:
        family: an entry of ``families.json``.
    """
    for example in family.examples:
        model, _, name = example.partition(":")
        module = f"transformers.models.{model}.modeling_{model}"
        path = module_file(module)
        for item in () if path is None else _items(str(path)):
            if item.name == name and item.formula is not None and item.formula.text == family.formula:
                yield module, item


@functools.lru_cache(maxsize=32)
def _items(path: str) -> tuple[Item, ...]:
    return tuple(read_items(Path(path).read_bytes()))


def _norm(rng: random.Random, size: pc.Size, family: Family, example: tuple[str, Item]) -> pc.Case:
    """Draw a norm of a tensor of 1 to 4 dimensions, small numbers or such that their squares have no float16."""
    width = size.draw(rng, small=(4, 24), typical=(64, 256))
    rows = size.draw(rng, small=(1, 12), typical=(64, 200))
    shape = rng.choice(((width,), (rows, width), (2, rows, width), (2, rows, 3, width)))
    weight = _normal(rng, (width,)) / 2 + (0 if family.kernel.endswith("plus_one") else 1)
    values: dict[str, Any] = {"x": (_normal(rng, shape) * rng.choice((1, 600))).requires_grad_()}
    if "weight" in family.arguments:
        values["weight"] = weight.requires_grad_()
    if "gate" in family.arguments:
        without = family.kernel.endswith("rms_norm_of_gated") and rng.random() < 0.3
        values["gate"] = None if without else _normal(rng, shape).requires_grad_()
    constants = {"eps": rng.choice((1e-6, 1e-5)), "activation": rng.choice(("silu", "sigmoid"))}
    return _case(family, example, values, constants)


def _rotary(rng: random.Random, size: pc.Size, family: Family, example: tuple[str, Item]) -> pc.Case:
    """Draw a rotary embedding: heads in dimension 1 or 2, cosines of each sequence or of all, learned or not."""
    kernel = family.kernel.partition(":")[2]
    vision, in_float32 = kernel.startswith("vision"), "in_float32" in kernel
    width = 2 * size.draw(rng, small=(1, 12), typical=(16, 64))
    rest = 2 * rng.randint(0, 3) if "partial" in kernel else 0
    positions = size.draw(rng, small=(2, 9), typical=(64, 128))
    batch, dim = rng.randint(1, 2), 2 if vision else rng.choice((1, 2))
    one = vision and rng.random() < 0.5  # one sequence, without a dimension for the batch
    each = rng.choice((1, batch)) if "pairs_" not in kernel or kernel.startswith("halves") else 1
    learned = not in_float32 and rng.random() < 0.3
    angles = _normal(rng, (positions, width) if one else (each, positions, width)) * 3
    values: dict[str, Any] = {}
    for name in [name for name in family.arguments if name in ("x", "q", "k")]:
        heads = rng.randint(1, 4)
        shape: tuple[int, ...] = (batch, heads, positions) if dim == 1 else (batch, positions, heads)
        shape = shape[1:] if one else shape
        values[name] = _normal(rng, (*shape, width + rest)).requires_grad_()
    if in_float32 and rng.random() < 0.5:  # cosines stay in float32, also beside queries in 16 bits
        values["angles"] = (angles * 1000).long()
    else:
        values["cos"], values["sin"] = angles.cos().requires_grad_(learned), angles.sin().requires_grad_(learned)
    return _case(family, example, values, {"dim": dim})


def _mlp(rng: random.Random, size: pc.Size, family: Family, example: tuple[str, Item]) -> pc.Case:
    """Draw an MLP without projections, whose own rounding in 16 bits would hide differences."""
    import torch
    from transformers.activations import ACT2FN

    width = size.draw(rng, small=(1, 24), typical=(64, 256))
    rows = size.draw(rng, small=(1, 12), typical=(64, 200))
    activations = (torch.nn.SiLU(), torch.nn.GELU(), torch.nn.GELU(approximate="tanh"), ACT2FN["silu"], ACT2FN["gelu"])
    same = torch.nn.Identity()
    constants = {"projection": same, "down": same, "dropout": torch.nn.Dropout(0.0)}
    constants["activation"] = rng.choice(activations)
    shape = rng.choice(((rows, 2 * width), (2, rows, 2 * width)))
    return _case(family, example, {"x": (4 * _normal(rng, shape)).requires_grad_()}, constants)


def _sinks(rng: random.Random, size: pc.Size, family: Family, example: tuple[str, Item]) -> pc.Case:
    """Draw an attention with sinks: no mask, a causal one, a window; with padding on the left, too."""
    import torch

    heads, groups, batch = rng.randint(1, 2), rng.choice((1, 2)), rng.randint(1, 3)
    positions = size.draw(rng, small=(2, 12), typical=(64, 128))
    before = rng.choice((0, 3))  # keys of a cache
    width = size.draw(rng, small=(1, 24), typical=(32, 64))
    query = _normal(rng, (batch, heads * groups, positions, width)).requires_grad_()
    key, value = (_normal(rng, (batch, heads, positions + before, width)).requires_grad_() for _ in range(2))
    sinks = (4 * _normal(rng, (heads * groups,))).requires_grad_()
    seen = torch.ones(positions, positions + before, dtype=torch.bool).tril(before)
    seen = seen.triu(before - rng.randint(0, positions)).expand(batch, 1, -1, -1).clone()
    padding = rng.randint(0, positions - 1)
    seen[0, ..., :padding] = False
    masked, scaling = rng.random() < 0.8, rng.choice((width**-0.5, 0.7))

    def call(query: Any, key: Any, value: Any, sinks: Any) -> Any:
        mask = torch.zeros(seen.shape, dtype=query.dtype).masked_fill(~seen, torch.finfo(query.dtype).min)
        layer = SimpleNamespace(sinks=sinks, num_key_value_groups=groups, training=True)
        function = getattr(importlib.import_module(example[0]), example[1].name)
        return function(layer, query, key, value, mask.to(query.device) if masked else None, scaling=scaling)[0]

    return pc.Case(call, [query, key, value, sinks])


_CASES = {"norms": _norm, "rotary": _rotary, "mlps": _mlp, "sinks": _sinks}


def _case(family: Family, example: tuple[str, Item], values: dict[str, Any], constants: dict[str, Any]) -> pc.Case:
    """Return the call of an example.

    Args:
        family: of the example.
        example: its module and function.
        values: tensors by the argument of the kernel that they are; ``angles`` for cosines and sines in float32.
        constants: the other arguments of the kernel.
    """
    module, item = example
    assert item.formula is not None
    own_names = item.formula.names

    def call(*tensors: Any) -> Any:
        given = {**constants, **dict(zip(values, tensors))}
        if "angles" in given:
            angles = given["angles"].float() / 1000
            given["cos"], given["sin"] = angles.cos(), angles.sin()
        arguments: dict[str, Any] = {}
        attributes: dict[str, Any] = {}
        for argument, place in family.arguments.items():
            if place in own_names:
                (attributes if place[0] == "S" else arguments)[own_names[place]] = given[argument]
        found = getattr(importlib.import_module(module), item.name.partition(".")[0])
        if "." in item.name:
            found = _made(found, attributes)
        return found(**arguments)

    return pc.Case(call, list(values.values()))


def _made(klass: Any, attributes: dict[str, Any]) -> Any:
    """Return an object of a module's class that has only the attributes that its formula reads."""
    import torch

    made = klass.__new__(klass)
    torch.nn.Module.__init__(made)
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def _normal(rng: random.Random, shape: tuple[int, ...]) -> Any:
    import torch

    return torch.randn(shape, generator=torch.Generator().manual_seed(rng.randrange(2**31))) / 2
