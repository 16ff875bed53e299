"""Deformable aggregation against grid_sample, attention to whole pixels against indexing; gradcheck of both."""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch")

from kernel_results import assert_agree, output_and_gradients  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.nn import functional  # noqa: E402

from npu_emulator.limits import LimitError, lifted  # noqa: E402

dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


class Aggregation(NamedTuple):
    """Two images of three cameras at two scales."""

    feat: Tensor
    locations: Tensor
    weights: Tensor
    shapes: Tensor
    starts: Tensor

    @classmethod
    def random(cls, dtype: torch.dtype, **sizes: int) -> Aggregation:
        """Locations reach outside, and stay away from the centres of pixels, where the derivative jumps."""
        size = {"batch": 2, "anchors": 3, "points": 4, "cameras": 3, "groups": 8, "channels": 16, **sizes}
        batch, anchors, points, cameras, groups, channels = size.values()
        random = torch.Generator().manual_seed(1)
        shapes = torch.tensor([[[4, 6], [2, 3]]] * cameras).int()
        keys = shapes.prod(dim=-1).flatten()
        locations = torch.rand(batch, anchors, points, cameras, 2, generator=random, dtype=dtype) * 1.4 - 0.2
        whole = (locations * 24).floor() + 0.5  # between the centres of pixels of all these maps
        return cls(
            torch.randn(batch, int(keys.sum()), channels, generator=random, dtype=dtype),
            whole / 24,
            torch.randn(batch, anchors, points, cameras, 2, groups, generator=random, dtype=dtype),
            shapes,
            (keys.cumsum(0) - keys).view(cameras, 2).int(),
        )

    def run(self, mx_driving: ModuleType, feat: Tensor, locations: Tensor, weights: Tensor) -> Tensor:
        return mx_driving.deformable_aggregation(feat, self.shapes, self.starts, locations, weights)

    def expected(self, feat: Tensor, locations: Tensor, weights: Tensor) -> Tensor:
        """Sample each map with grid_sample, then weigh and add up."""
        batch, anchors, _, cameras, _, groups = weights.shape
        channels = feat.shape[2]
        total = feat.new_zeros(batch, anchors, channels)
        for camera in range(cameras):
            place = locations[:, :, :, camera]
            seen = ((place > 0) & (place < 1)).all(dim=-1)
            for scale, (height, width) in enumerate(self.shapes[camera].tolist()):
                start = int(self.starts[camera, scale])
                image = feat[:, start : start + height * width].transpose(1, 2).unflatten(2, (height, width))
                sampled = functional.grid_sample(image, 2 * place - 1, padding_mode="zeros", align_corners=False)
                sampled = (sampled * seen.unsqueeze(1)).permute(0, 2, 3, 1).unflatten(3, (groups, -1))
                weighted = sampled * weights[:, :, :, camera, scale].unsqueeze(-1)
                total = total + weighted.sum(dim=2).flatten(start_dim=2)
        return total


@dtypes
@pytest.mark.parametrize("sizes", [{}, {"cameras": 1, "anchors": 1, "points": 5, "batch": 1}, {"groups": 16}], ids=str)
def test_deformable_aggregation_agrees_with_grid_sample(
    mx_driving: ModuleType, dtype: torch.dtype, sizes: dict[str, int]
) -> None:
    inputs = Aggregation.random(dtype, **sizes)
    tensors = inputs[:3]
    ours = output_and_gradients(lambda *t: inputs.run(mx_driving, *t), tensors)
    assert_agree(ours, output_and_gradients(inputs.expected, tensors))
    assert mx_driving.calls == {"deformable_aggregation": 1, "deformable_aggregation_backward": 1}
    assert mx_driving.npu_deformable_aggregation == mx_driving.deformable_aggregation


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"channels": 264}, "deformable_aggregation: the device takes at most 256 channels, found 264"),
        ({"groups": 4}, "a multiple of 8 groups, found 4"),
        ({"batch": 129}, "at most 128 images, found 129"),
        ({"cameras": 7}, r"at most 6 cameras and 4 scales, found \(7, 2\)"),
        ({"points": 2049, "cameras": 1, "batch": 1}, r"at most 2048 anchors and 2048 points, found \(3, 2049\)"),
    ],
    ids=["channels", "groups", "images", "cameras", "points"],
)
def test_aggregations_that_the_device_does_not_take(
    mx_driving: ModuleType, sizes: dict[str, int], message: str
) -> None:
    inputs = Aggregation.random(torch.float32, **sizes)
    with pytest.raises(LimitError, match=message):
        inputs.run(mx_driving, *inputs[:3])
    assert not mx_driving.calls
    with lifted():
        assert inputs.run(mx_driving, *inputs[:3]).any()


def test_aggregations_that_nobody_takes(mx_driving: ModuleType) -> None:
    inputs = Aggregation.random(torch.float32)
    with pytest.raises(ValueError, match="expected no empty tensor"):
        inputs.run(mx_driving, inputs.feat[:, :0], *inputs[1:3])
    with pytest.raises(ValueError, match="expected groups that divide 15 channels, found 8"):
        inputs.run(mx_driving, inputs.feat[:, :, :15], *inputs[1:3])


# --- attention to whole pixels ------------------------------------------------------------------------------------


def attention(dtype: torch.dtype, points: int = 5, channels: int = 8) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Values and weights; and shapes, starts and locations that reach outside."""
    random = torch.Generator().manual_seed(2)
    shapes = torch.tensor([[3, 5], [2, 4]]).int()
    value = torch.randn(2, 23, 2, channels, generator=random, dtype=dtype)
    weights = torch.rand(2, 6, 2, 2, points, generator=random, dtype=dtype)
    locations = torch.randint(-3, 8, (2, 6, 2, 2, points, 2), generator=random).to(dtype)
    return (value, weights), (shapes, torch.tensor([0, 15]).int(), locations)


def run_attention(mx_driving: ModuleType, value: Tensor, weights: Tensor, rest: tuple[Tensor, ...]) -> Tensor:
    return mx_driving.geometric_kernel_attention(value, *rest, weights)


def expected_attention(value: Tensor, weights: Tensor, rest: tuple[Tensor, ...]) -> Tensor:
    """Pixel by pixel."""
    shapes, starts, locations = rest
    batch, queries, heads, levels, points = weights.shape
    rows: list[Any] = []
    for n in range(batch):
        for q in range(queries):
            for h in range(heads):
                total: Any = 0
                for level in range(levels):
                    height, width = shapes[level].tolist()
                    for p in range(points):
                        x, y = (int(number) for number in locations[n, q, h, level, p])
                        x, y = min(max(x, 0), width - 1), min(max(y, 0), height - 1)
                        total = total + value[n, int(starts[level]) + y * width + x, h] * weights[n, q, h, level, p]
                rows.append(total)
    return torch.stack(rows).view(batch, queries, -1)


@dtypes
def test_geometric_kernel_attention_picks_pixels(mx_driving: ModuleType, dtype: torch.dtype) -> None:
    tensors, rest = attention(dtype)
    ours = output_and_gradients(lambda v, w: run_attention(mx_driving, v, w, rest), tensors)
    assert_agree(ours, output_and_gradients(lambda v, w: expected_attention(v, w, rest), tensors))
    assert mx_driving.calls == {"geometric_kernel_attention": 1, "geometric_kernel_attention_backward": 1}


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"channels": 12}, "backward: the device takes a multiple of 8 channels, found 12"),
        ({"points": 57}, r"heads \* levels \* points \(in eights\) below 256, found 256"),
        ({"points": 33, "channels": 104}, "terms times channels below 16384, found 16640"),
    ],
    ids=["channels", "terms", "terms and channels"],
)
def test_attention_of_which_the_device_has_no_gradient(
    mx_driving: ModuleType, sizes: dict[str, int], message: str
) -> None:
    (value, weights), rest = attention(torch.float32, **sizes)
    output = run_attention(mx_driving, value.requires_grad_(), weights, rest)
    with pytest.raises(LimitError, match=message):
        output.sum().backward()
    with lifted():
        output.sum().backward()
    assert value.grad.any()
