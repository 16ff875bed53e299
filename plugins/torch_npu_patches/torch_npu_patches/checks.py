"""Random calls of the functions that the numeric patches of this distribution replace, for ``patchcore verify``."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Callable

import patchcore as pc

STEPS = 3


def masked_vector(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw ``x[mask]`` of a vector."""
    count = size.draw(rng, small=(1, 50), typical=(20000, 100000)) - 1
    return _masked(rng, (count,), count)


def masked_rows(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw ``x[mask]`` of a matrix, whose rows the mask chooses."""
    rows = size.draw(rng, small=(1, 30), typical=(2000, 20000)) - 1
    return _masked(rng, (rows, rng.randint(1, 20)), rows)


def projections(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw square matrices times column vectors, multiplied by each of the three names of the product."""
    rank, rows = rng.randint(4, 7), rng.randint(1, 6)
    batch = [rng.randint(1, 4) for _ in range(rank - 3)] + [size.draw(rng, small=(1, 4), typical=(500, 2000))]
    batches = [[rng.choice((1, count)) for count in batch] for _ in range(2)]
    matrix = _normal(rng, (*batches[0], rows, rows)).requires_grad_()
    column = _normal(rng, (*batches[1], rows, 1)).requires_grad_()

    def call(matrix: Any, column: Any) -> Any:
        import torch

        return torch.matmul(matrix, column), matrix.matmul(column), matrix @ column

    return pc.Case(call, [matrix, column])


def conjugated_writes(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw complex numbers, as pairs, and write through conjugated views of them."""
    import torch

    count = size.draw(rng, small=(1, 20), typical=(2000, 20000))
    first, second = (_normal(rng, (count, 2)) for _ in range(2))

    writes: tuple[Callable[[Any, Any], Any], ...] = (
        lambda x, y: x.conj().copy_(y),
        lambda x, y: x.conj().mul_(y),
        lambda x, y: torch.add(x, y, out=x.conj()),
    )

    def call(first: Any, second: Any) -> Any:
        results = []
        for write in writes:
            x = torch.view_as_complex(first.clone())
            write(x, torch.view_as_complex(second))
            results.append(torch.view_as_real(x))
        return results

    return pc.Case(call, [first, second])


def fused_steps(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw parameters and gradients for some steps; the reference is ``torch.optim.AdamW``."""
    shapes = [
        tuple(size.draw(rng, small=(1, 6), typical=(16, 64)) for _ in range(rng.randint(1, 3)))
        for _ in range(size.draw(rng, small=(1, 4), typical=(4, 16)))
    ]
    parameters = [_normal(rng, shape) for shape in shapes]
    gradients = [[_normal(rng, shape) for shape in shapes] for _ in range(STEPS)]
    settings = {"lr": rng.uniform(1e-3, 1e-1), "weight_decay": rng.choice((0.0, 0.1)), "amsgrad": rng.random() < 0.5}

    def fused(tensors: Any, gradients: Any) -> Any:
        from torch_npu.optim import NpuFusedAdamW

        return _take_steps(NpuFusedAdamW, settings, tensors, gradients)

    def reference(tensors: Any, gradients: Any) -> Any:
        import torch

        return _take_steps(torch.optim.AdamW, settings, tensors, gradients)

    return pc.Case(fused, [parameters, gradients], reference=reference)


def scattered(rng: random.Random, size: pc.Size = pc.Size.SMALL) -> pc.Case:
    """Draw a source with groups along one of its dimensions, reduced in each of the three ways."""
    import torch

    shape = [size.draw(rng, small=(1, 6), typical=(16, 64)) for _ in range(rng.randint(1, 3))]
    dim, groups = rng.randrange(len(shape)), size.draw(rng, small=(1, 5), typical=(10, 40))
    index = torch.randint(groups, (shape[dim],), generator=_generator(rng))
    dim_size = rng.choice((None, groups, groups + 2))

    def call(source: Any, index: Any) -> Any:
        from torch_scatter import scatter_max, scatter_mean, scatter_sum

        index = index.view([-1 if d == dim else 1 for d in range(source.dim())]).expand_as(source)
        return [
            reduce(source, index, dim=dim, dim_size=dim_size) for reduce in (scatter_sum, scatter_mean, scatter_max)
        ]

    return pc.Case(call, [_normal(rng, shape).requires_grad_(), index])


def _masked(rng: random.Random, shape: Sequence[int], count: int) -> pc.Case:
    import torch

    mask = torch.rand(count, generator=_generator(rng)) < rng.random()
    return pc.Case(lambda x, mask: x[mask], [_normal(rng, shape).requires_grad_(), mask])


def _take_steps(make: Callable[..., Any], settings: dict[str, Any], tensors: Any, gradients: Any) -> Any:
    import torch

    parameters = [torch.nn.Parameter(tensor.clone()) for tensor in tensors]
    optimizer = make(parameters, **settings)
    for step in gradients:
        for parameter, gradient in zip(parameters, step):
            if parameter.grad is None:
                parameter.grad = gradient.clone()
            else:  # a fused optimizer has put the gradients into one memory
                parameter.grad.copy_(gradient)
        optimizer.step()
    return [parameter.detach().clone() for parameter in parameters]


def _normal(rng: random.Random, shape: Sequence[int]) -> Any:
    import torch

    return torch.randn(tuple(shape), generator=_generator(rng))


def _generator(rng: random.Random) -> Any:
    import torch

    return torch.Generator().manual_seed(rng.randrange(2**31))
