"""The models that are tried, with random weights. Importing this imports torch."""

from __future__ import annotations

from typing import Callable, NamedTuple

from torch import nn

from npu_graph.conformance.models.llama import Llama
from npu_graph.conformance.models.resnet import ResNet, ResNet50
from npu_graph.conformance.models.small import Perceptron
from npu_graph.conformance.models.unet import UNet

__all__ = ["MODELS", "Model"]


class Model(NamedTuple):
    """A model and the inputs of its trial.

    Args:
        make: makes it, with weights from torch's generator.
        shapes: of its input: with dynamic sizes it is compiled once for all of them, else for the first.
    """

    make: Callable[[], nn.Module]
    shapes: tuple[tuple[int, ...], ...]


MODELS = {
    "perceptron": Model(Perceptron, ((4, 8), (5, 8))),
    "resnet": Model(ResNet, ((2, 3, 32, 32), (3, 3, 48, 48))),
    "llama": Model(Llama, ((2, 5, 16), (3, 6, 16))),
    "unet": Model(UNet, ((2, 3, 16, 16), (3, 3, 24, 24))),
    "resnet50": Model(ResNet50, ((2, 3, 64, 64), (2, 3, 48, 64))),
}
