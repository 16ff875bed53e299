"""What the graph backends are compared on: functions and models, and how a step of each is made with a compiler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.subjects import missing

__all__ = ["Workload", "compiler", "functions", "models", "unusable"]

#: What ``torch.compile`` is given, by the name that rows use; ``eager`` is not compiled.
BACKENDS: Mapping[str, str] = {
    "c": "patchcore_c",
    "reference": "patchcore_reference",
    "inductor": "inductor",
}

Step = Callable[[], object]
Compile = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True)
class Workload:
    """Something to do again and again.

    Args:
        name: how rows call it.
        make: takes what compiles a function or a module and returns a step; the same numbers for each compiler.
        is_model: whether it takes so long that few rounds must do.
    """

    name: str
    make: Callable[[Compile], Step]
    is_model: bool = False


def compiler(backend: str) -> Compile:
    """Return what compiles for a backend, for fixed sizes; for ``eager`` the function itself."""
    if backend == "eager":
        return lambda function: function
    return lambda function: torch.compile(function, backend=BACKENDS[backend], dynamic=False)


def unusable(backend: str) -> Optional[str]:
    """Return why a backend cannot compile anything here, ``None`` where it can."""
    if backend in ("c", "reference") and missing("npu_graph"):
        return missing("npu_graph")
    try:
        compiler(backend)(lambda x: x + 1)(torch.ones(2))
    except Exception as error:  # each backend has errors of its own
        first, *_ = str(error).strip().splitlines() or [type(error).__name__]
        return f"{backend} cannot compile here: {first}"
    finally:
        torch._dynamo.reset()
    return None


# --- functions --------------------------------------------------------------------------------------------------------


def functions(*, quick: bool) -> list[Workload]:
    """Return element-wise chains, softmax and layer norm, forward and with gradients; some, small, when quick."""
    rows, columns = (32, 64) if quick else (1024, 1024)
    size = f"{rows} x {columns}"
    found = [Workload("x * 2 + 1 of 16 elements, forward", _forward(lambda x: x * 2 + 1, (16,)))]
    for name, function, shapes in (
        (f"chain of 8 operators, {size}", plain_chain, [(rows, columns)] * 2 + [(columns,)]),
        (f"chain with exp and tanh, {size}", transcendental_chain, [(rows, columns)] * 2 + [(columns,)]),
        (f"softmax, {size}", softmax, [(rows, columns)]),
        (f"layer norm, {size}", layer_norm, [(rows, columns), (columns,), (columns,)]),
    ):
        found.append(Workload(f"{name}, forward", _forward(function, *shapes)))
        found.append(Workload(f"{name}, forward and backward", _with_gradients(function, *shapes)))
    return [found[0], found[4], found[5]] if quick else found


def plain_chain(x: Tensor, y: Tensor, bias: Tensor) -> Tensor:
    """Adds, products and clamps."""
    return F.relu((x + bias) * 0.5 - y).clamp(max=2.0) * x + y * 1.5


def transcendental_chain(x: Tensor, y: Tensor, bias: Tensor) -> Tensor:
    """The same with functions that take long."""
    return torch.tanh(x * y + bias) * torch.exp(-(x.square())) + torch.tanh(y)


def softmax(x: Tensor) -> Tensor:
    """Over rows."""
    return torch.softmax(x, -1)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Over rows."""
    return F.layer_norm(x, weight.shape, weight, bias)


def _forward(function: Callable[..., Tensor], *shapes: tuple[int, ...]) -> Callable[[Compile], Step]:
    def make(compile: Compile) -> Step:
        torch.manual_seed(0)
        inputs, compiled = [torch.randn(shape) for shape in shapes], compile(function)
        return lambda: compiled(*inputs)

    return make


def _with_gradients(function: Callable[..., Tensor], *shapes: tuple[int, ...]) -> Callable[[Compile], Step]:
    def make(compile: Compile) -> Step:
        torch.manual_seed(0)
        inputs, compiled = [torch.randn(shape, requires_grad=True) for shape in shapes], compile(function)
        gradient = torch.randn(shapes[0])
        return lambda: torch.autograd.grad(compiled(*inputs), inputs, gradient)

    return make


# --- models -----------------------------------------------------------------------------------------------------------


def models(*, quick: bool) -> list[Workload]:
    """Return training steps of a transformer block and of ResNet-50; of a residual block when quick."""
    if quick:
        network = _training(lambda: ResNet((1,), 8), (2, 3, 32, 32))
        return [Workload("residual block, 2 x 3 x 32 x 32, training step", network, True)]
    block = _training(lambda: TransformerBlock(256, 4), (4, 128, 256))
    network = _training(lambda: ResNet((3, 4, 6, 3), 64), (4, 3, 128, 128))
    return [
        Workload("transformer block, 256 wide, 4 x 128 tokens, training step", block, True),
        Workload("ResNet-50, 4 x 3 x 128 x 128, training step", network, True),
    ]


def _training(make_model: Callable[[], nn.Module], shape: tuple[int, ...]) -> Callable[[Compile], Step]:
    """A step: forward, loss, backward, SGD with momentum; loss and optimizer run eagerly."""

    def make(compile: Compile) -> Step:
        torch.manual_seed(0)
        model, x = make_model(), torch.randn(shape)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
        compiled = compile(model)

        def step() -> Tensor:
            optimizer.zero_grad()
            loss = compiled(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        return step

    return make


class TransformerBlock(nn.Module):
    """Attention and a perceptron, with the normalisation in front (GPT-2).

    Args:
        width: features of a token.
        heads: of the attention.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.perceptron = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """Take and return ``[batch, length, width]``."""
        batch, length, width = x.shape
        parts = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, -1)
        attended = F.scaled_dot_product_attention(*parts.permute(2, 0, 3, 1, 4), is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.perceptron(self.norms[1](x))


class ResNet(nn.Module):
    """A residual network of bottlenecks (He et al., arXiv:1512.03385) with the stride in the middle, as torchvision's.

    Args:
        blocks: how many of each stage; (3, 4, 6, 3) is ResNet-50.
        width: channels of the stem; 64 is ResNet-50.
        classes: of the output.
    """

    def __init__(self, blocks: tuple[int, ...], width: int, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(*_convolution(3, width, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        channels, stages = width, []
        for stage, count in enumerate(blocks):
            middle = width * 2**stage
            for number in range(count):
                stages.append(_Bottleneck(channels, middle, 2 if stage and not number else 1))
                channels = 4 * middle
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Take ``[batch, 3, height, width]``, return ``[batch, classes]``."""
        return self.head(F.adaptive_avg_pool2d(self.stages(self.stem(x)), 1).flatten(1))


class _Bottleneck(nn.Module):
    def __init__(self, channels: int, middle: int, stride: int) -> None:
        super().__init__()
        layers = [*_convolution(channels, middle, 1), nn.ReLU(inplace=True)]
        layers += [*_convolution(middle, middle, 3, stride), nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*layers, *_convolution(middle, 4 * middle, 1))
        self.short = nn.Identity()
        if stride > 1 or channels != 4 * middle:
            self.short = nn.Sequential(*_convolution(channels, 4 * middle, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.layers(x) + self.short(x), inplace=True)


def _convolution(channels: int, out: int, size: int, stride: int = 1) -> tuple[nn.Module, nn.Module]:
    return nn.Conv2d(channels, out, size, stride, size // 2, bias=False), nn.BatchNorm2d(out)
