"""Cases of torch_npu's operators of the older interface: recurrent layers, convolutions, dropout, boxes, regions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch_npu
from torch.nn import functional as F

from fake_cann.comparing.more_cases import compiled, floats, fused, normal, numbers, old, positive, small

__all__ = ["CASES"]


def constant(value: Any) -> Callable[[torch.dtype], Any]:
    """Return the factory of a value that is the same for every type."""
    return lambda dtype: value


def recurrent(gates: int, layers: int = 1, directions: int = 1, states: int = 2) -> Callable[[torch.dtype], list[Any]]:
    """Return the factory of a sequence, the first states and the weights of a recurrent layer of 3 to 4 features.

    They are float for every type where there are several layers: half precision is rounded in each on the CPU.
    """
    batch, features, hidden = 2, 3, 4
    given: list[tuple[int, ...]] = [(5, batch, features), *[(layers * directions, batch, hidden)] * states]
    for layer in range(layers):
        width = features if layer == 0 else hidden * directions
        given += [
            *[(gates * hidden, width), (gates * hidden, hidden), (gates * hidden,), (gates * hidden,)] * directions,
        ]
    return small(*given) if layers == 1 else lambda dtype: small(*given)(torch.float32)


def lstm(layers: int, both: bool) -> Callable[[list[torch.Tensor]], list[torch.Tensor]]:
    """Return a function that runs an LSTM of some layers, in both directions or in one."""
    return lambda given: list(torch.lstm(given[0], given[1:3], given[3:], True, layers, 0.0, True, both, False))


def gru(layers: int, both: bool) -> Callable[[list[torch.Tensor]], list[torch.Tensor]]:
    """Return a function that runs a GRU of some layers, in both directions or in one."""
    return lambda given: list(torch.gru(given[0], given[1], given[2:], True, layers, 0.0, True, both, False))


def lstm_cell(given: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return the state and the cell after one step of an LSTM."""
    x, h, c, *weights = given
    return list(torch.lstm_cell(x[0], (h[0], c[0]), *weights))


def deformable(given: list[torch.Tensor]) -> torch.Tensor:
    """Return a convolution of 3 x 3 whose taps are displaced and weighted, for two groups of channels."""
    x, weight, offsets = given
    if x.device.type != "cpu":
        ones = [1, 1, 1, 1]
        return torch_npu.npu_deformable_conv2d(
            x, weight, offsets, None, kernel_size=[3, 3], stride=ones, padding=ones, dilation=ones, deformable_groups=2
        )[0]
    n, channels, h, w = x.shape
    right, down, weights = offsets.view(n, 3, 2, 9, h, w).unbind(1)
    rows, columns = torch.arange(h).view(h, 1), torch.arange(w).view(1, w)
    result = torch.zeros(())
    for group, tap in itertools.product(range(2), range(9)):
        part = slice(group * channels // 2, (group + 1) * channels // 2)
        row = rows - 1 + tap // 3 + down[:, group, tap]
        column = columns - 1 + tap % 3 + right[:, group, tap]
        grid = torch.stack([2 * column / (w - 1) - 1, 2 * row / (h - 1) - 1], -1)
        samples = F.grid_sample(x[:, part], grid, align_corners=True) * weights[:, group, tap, None]
        result = result + torch.einsum("nchw,oc->nohw", samples, weight[:, part, tap // 3, tap % 3])
    return result


def renormed(indices: Sequence[int]) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function that shortens some rows of a table, as ``embedding`` does with ``max_norm``."""
    return lambda x: torch.embedding_renorm_(x.clone(), torch.tensor(indices, device=x.device), 1.0, 2.0)


def steps(x: torch.Tensor, first: list[int], last: list[int], by: list[int]) -> torch.Tensor:
    """Return every second element of a part of a table."""
    return x[first[0] : last[0] : by[0], first[1] : last[1] : by[1]]


def updated(x: torch.Tensor, starts: torch.Tensor, contents: torch.Tensor, axis: int) -> torch.Tensor:
    """Return x with new contents in each of its parts, from another row on in each."""
    x = x.clone()
    for part, start in enumerate(starts.tolist()):
        x[part].narrow(axis - 1 if axis > 0 else axis, start, contents.shape[axis]).copy_(contents[part])
    return x


def updated_places(x: torch.Tensor, places: torch.Tensor, contents: torch.Tensor) -> torch.Tensor:
    """Return x with new rows."""
    x = x.clone()
    x[places[:, 0]] = contents
    return x


def view_copied(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return x with every second column, from the second on, written from another view."""
    x = x.detach().clone()
    if x.device.type == "cpu":
        x[:, 1::2].copy_(y.t())
    else:
        torch_npu.npu_view_copy(x[:, 1::2], y.t(), False)
    return x


def hot(x: torch.Tensor, classes: int, depth: int) -> torch.Tensor:
    """Return rows of ones and zeros; numbers from ``depth`` on have only zeros."""
    return (x[..., None] == torch.arange(depth)).float()


def convolution(transposed: bool) -> Callable[..., list[torch.Tensor]]:
    """Return a convolution of two or three dimensions and all its gradients, by operators of torch_npu on the NPU."""

    def either(tensors: list[torch.Tensor], given: list[Any]) -> list[torch.Tensor]:
        x, w, b = tensors
        dims = x.dim() - 2
        more, stride, padding, dilation, groups = given
        arguments = [padding, more, stride, dilation] if transposed else [stride, padding, dilation]
        if x.device.type != "cpu":
            name = "npu_convolution_transpose" if transposed else "npu_convolution"
            y = getattr(torch_npu, name)(x, w, b, *arguments, groups)
            mask = [True, True, True]
            back = getattr(torch_npu, f"{name}_backward")(x, torch.ones_like(y), w, *arguments, groups, mask)
            return [y, *back]
        call = getattr(F, f"conv_transpose{dims}d" if transposed else f"conv{dims}d")
        leaves = [tensor.detach().float().requires_grad_() for tensor in (x, w, b)]
        options = {"output_padding": more} if transposed else {}
        with torch.enable_grad():
            y = call(*leaves, stride=stride, padding=padding, dilation=dilation, groups=groups, **options)
            y.sum().backward()
        return [result.detach().to(x.dtype) for result in (y, *(leaf.grad for leaf in leaves))]

    return either


def ctc(x: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the losses of two sequences of 6 steps, of which one uses 5."""
    return F.ctc_loss(x.log_softmax(-1), targets, [6, 5], [3, 2], reduction="none")


def soft_cross_entropy(x: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
    """Return the cross entropy with shares of the classes."""
    return -(shares.float().softmax(1) * x.float().log_softmax(1)).sum(1).to(x.dtype)


def npu_soft_cross_entropy(x: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
    """Return the same, by torch_npu's operator on the NPU."""
    if x.device.type == "cpu":
        return soft_cross_entropy(x, shares)
    return torch_npu.npu_softmax_cross_entropy_with_logits(x, shares.softmax(1))


def dropped_with_bits(x: torch.Tensor) -> torch.Tensor:
    """Return whether a mask of bits drops a third of a tensor and scales the rest, comes again with its seed only."""
    if x.device.type == "cpu":
        return torch.tensor([True, True, True, False])
    ones = torch.ones(9000, device=x.device)
    masks = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        masks.append(torch_npu.npu_dropout_gen_mask([9000], 1 / 3, dtype=torch.float32, device=x.device))
    out = torch_npu.npu_dropout_do_mask(ones, masks[0], 1 / 3)[0].cpu()
    share = float((out == 0).float().mean())
    values = sorted({round(value, 3) for value in out.tolist()})
    first, again, other = (mask.cpu() for mask in masks)
    return torch.tensor(
        [abs(share - 1 / 3) < 0.03, values == [0.0, 1.5], torch.equal(first, again), torch.equal(first, other)]
    )


def softmax_dropout(probability: float) -> Callable[..., torch.Tensor]:
    """Return softmax of a weighted sum, of which a share is dropped, if it is dropped evenly."""

    def either(added: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        if x.device.type == "cpu":
            added = added.detach() if probability else added  # the gradient is that of what was dropped
            return (x.float() + 0.5 * added.float()).softmax(-1).to(x.dtype)
        _, soft, out = torch_npu.npu_dropout_with_add_softmax(added, x, 0.5, probability, -1)
        if not probability:
            return out
        kept = out != 0
        assert 0.3 < float(kept.float().mean()) < 0.7
        assert torch.allclose(out[kept].float(), 2 * soft[kept].float(), rtol=1e-3)
        return soft

    return either


def boxes(count: int) -> Callable[[torch.dtype], torch.Tensor]:
    """Return the factory of boxes as rows of center and size."""
    return lambda dtype: torch.cat([torch.rand(2, count) * 4, torch.rand(2, count) * 3 + 1]).to(dtype)


def corners(count: int) -> Callable[[torch.dtype], torch.Tensor]:
    """Return the factory of boxes of whole numbers, as columns of their corners."""

    def make(dtype: torch.dtype) -> torch.Tensor:
        low = torch.randint(0, 9, (count, 2))
        return torch.cat([low, low + torch.randint(3, 9, (count, 2))], 1).to(dtype)

    return make


def overlap(kind: str) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Return the generalized, the distance or the complete IoU of pairs of boxes (arXiv:1902.09630, 1911.08287)."""

    def either(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        if first.device.type != "cpu":
            return getattr(torch_npu, f"npu_{kind}")(first, second, True, False, 0).reshape(-1)
        a, b = first.float(), second.float()
        a = a.detach() if kind == "ciou" else a  # whose gradient is refused
        low = torch.maximum(a[:2] - a[2:] / 2, b[:2] - b[2:] / 2)
        high = torch.minimum(a[:2] + a[2:] / 2, b[:2] + b[2:] / 2)
        around = torch.maximum(a[:2] + a[2:] / 2, b[:2] + b[2:] / 2) - torch.minimum(
            a[:2] - a[2:] / 2, b[:2] - b[2:] / 2
        )
        shared = (high - low).clamp(min=0).prod(0)
        union = a[2:].prod(0) + b[2:].prod(0) - shared
        iou = shared / union
        if kind == "giou":
            return (iou - (around.prod(0) - union) / around.prod(0)).to(first.dtype)
        result = iou - (a[:2] - b[:2]).square().sum(0) / around.square().sum(0)
        if kind == "ciou":
            aspect = 4 / math.pi**2 * (torch.atan(b[2] / b[3]) - torch.atan(a[2] / a[3])).square()
            result = result - aspect * aspect / (1 - iou + aspect)
        return result.to(first.dtype)

    return either


def unpacked_signs(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the bits of bytes as 1 and -1, in rows."""
    kind = torch.float16 if dtype is torch.float16 else torch.float32
    if x.device.type != "cpu":
        return torch_npu.npu_sign_bits_unpack(x, 3, kind)
    return (((x[:, None] >> torch.arange(8)) & 1) * 2 - 1).reshape(3, -1).to(kind)


def iou(first: torch.Tensor, second: torch.Tensor) -> list[torch.Tensor]:
    """Return the IoU of all pairs of boxes, and the share of the second in each."""
    if first.device.type != "cpu":
        return [torch_npu.npu_iou(first, second, mode) for mode in (0, 1)]
    a, b = first.detach().float()[None], second.float()[:, None]
    sides = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0)
    areas = [(x[..., 2:] - x[..., :2]).prod(-1) for x in (a, b)]
    shared = sides.prod(-1)
    return [(shared / whole).half().to(first.dtype) for whole in (sum(areas) - shared, areas[1])]


def coded(anchors: torch.Tensor, given: torch.Tensor) -> list[torch.Tensor]:
    """Return boxes relative to anchors, and from these again the boxes."""
    numbers = (0.1, 0.0, 0.0, 0.2, 0.5, 0.5, 0.4, 0.4)
    if anchors.device.type != "cpu":
        deltas = torch_npu.npu_bounding_box_encode(anchors, given, *numbers)
        return [deltas, torch_npu.npu_bounding_box_decode(anchors, deltas, *numbers, (20, 20), 0.016)]
    a, b = anchors.detach().float(), given.float()
    size = [x[:, 2:] - x[:, :2] + 1 for x in (a, b)]
    shift = (b[:, :2] + b[:, 2:] - a[:, :2] - a[:, 2:]) / 2 / size[0]
    deltas = torch.cat([shift, (size[1] / size[0]).log()], 1)
    return [((deltas - torch.tensor(numbers[:4])) / torch.tensor(numbers[4:])).to(anchors.dtype), given]


def yolo(anchors: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
    """Return boxes relative to anchors, in units of cells of 4 pixels, by torch_npu's operator on the NPU."""
    stride = torch.full((len(anchors),), 4, dtype=torch.int32, device=anchors.device)
    if anchors.device.type != "cpu":
        return torch_npu.npu_yolo_boxes_encode(anchors, given, stride)
    a, b = anchors.detach().float(), given.float()
    shift = ((b[:, :2] + b[:, 2:] - a[:, :2] - a[:, 2:]) / 8 + 0.5).clamp(1e-6, 1 - 1e-6)
    return torch.cat([shift, ((b[:, 2:] - b[:, :2]) / (a[:, 2:] - a[:, :2])).log()], 1).to(anchors.dtype)


def flags(given: torch.Tensor) -> torch.Tensor:
    """Return which of 5 x 6 cells of 4 pixels have the center of a box, twice for each."""
    if given.device.type != "cpu":
        return torch_npu.npu_anchor_response_flags(given, [5, 6], [4, 4], 2)
    found = torch.zeros(5, 6, dtype=torch.uint8)
    for x1, y1, x2, y2 in given.tolist():
        found[int((y1 + y2) / 8), int((x1 + x2) / 8)] = 1
    return found.flatten().repeat_interleave(2)


def assigned(x: torch.Tensor, largest: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Return the boxes that anchors are assigned to."""
    responsible = torch.tensor([1, 1, 0, 1], dtype=torch.uint8, device=x.device)
    if x.device.type == "cpu":
        return torch.where((largest > 0.5) & responsible.bool(), (places + 1).to(x.dtype), x.detach())
    overlaps, best = torch.zeros(2, 4, device=x.device).to(x.dtype), torch.zeros(2, device=x.device).to(x.dtype)
    best_of = torch.zeros(2, dtype=torch.int32, device=x.device)
    options = (2, 0.5, 0.0, True)
    return torch_npu.npu_grid_assign_positive(x, overlaps, responsible, largest, places.int(), best, best_of, *options)


REGIONS = torch.tensor([[0, 1.0, 1.0, 6.0, 5.0], [1, 0.0, 2.0, 3.0, 7.0]])


def sampled(features: torch.Tensor, region: Sequence[float], cells: int, samples: int, shift: float) -> torch.Tensor:
    """Return the means of samples in the cells of a region, each between its four neighbours (arXiv:1703.06870)."""
    left, top, right, bottom = (side - shift for side in region[1:])
    ys, xs = (
        low + (torch.arange(cells * samples) + 0.5) * (high - low) / (cells * samples)
        for low, high in ((top, bottom), (left, right))
    )
    height, width = features.shape[2:]
    grid = torch.stack(torch.meshgrid((xs * 2 + 1) / width - 1, (ys * 2 + 1) / height - 1, indexing="xy"), -1)
    found = F.grid_sample(features[int(region[0])][None], grid[None], padding_mode="border", align_corners=False)
    return F.avg_pool2d(found, samples)[0]


def aligned(mode: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return ROIAlign, or its gradient for an even one of the result if the second operator is to be called."""

    def either(features: torch.Tensor) -> torch.Tensor:
        if features.device.type != "cpu":
            regions = REGIONS.npu()
            out = torch_npu.npu_roi_align(features, regions, 1.0, 2, 2, 2, mode)
            back = torch_npu.npu_roi_alignbk(torch.ones_like(out), regions, features.shape, 2, 2, 1.0, 2, mode)
            return torch.cat([out.flatten(), back.flatten()])
        leaf = features.detach().float().requires_grad_()
        with torch.enable_grad():
            out = torch.stack([sampled(leaf, region, 2, 2, 0.5 if mode else 0.0) for region in REGIONS.tolist()])
            out.sum().backward()
        return torch.cat([out.detach().flatten(), leaf.grad.flatten()])

    return either


def pooled(x: torch.Tensor) -> torch.Tensor:
    """Return the pooling of R-FCN (arXiv:1605.06409) in 2 x 2 cells, each with channels of its own."""
    if x.device.type != "cpu":
        return torch_npu.npu_ps_roi_pooling(x, REGIONS[:, :, None].npu().to(x.dtype), 1.0, 2, 3)
    results = []
    for batch, left, top, right, bottom in REGIONS.tolist():
        cells = []
        for channel, row, column in itertools.product(range(3), range(2), range(2)):
            height, width = (bottom + 1 - top) / 2, (right + 1 - left) / 2
            ys = slice(math.floor(top + row * height), min(math.ceil(top + (row + 1) * height), x.shape[2]))
            xs = slice(math.floor(left + column * width), min(math.ceil(left + (column + 1) * width), x.shape[3]))
            cells.append(x[int(batch), (channel * 2 + row) * 2 + column, ys, xs].mean())
        results.append(torch.stack(cells).view(3, 2, 2))
    return torch.stack(results)


def restored(q: torch.Tensor, scale: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
    """Return the numbers that 8 bits stand for."""
    if q.device.type != "cpu":
        return torch_npu.npu_anti_quant(q.to(torch.int8), scale, offset=offset, dst_dtype=torch.float16)
    return ((q.float() + offset) * scale).half()


def restored_fours(q: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Return the numbers that four bits stand for, eight of them in an int32."""
    packed = sum((q[:, place::8].int() & 15) << (4 * place) for place in range(8))
    if q.device.type != "cpu":
        return torch_npu.npu_anti_quant(packed, scale, dst_dtype=torch.float16)
    return (q.float() * scale).half()


def weighed(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Return a product with a matrix of 8 bits."""
    if x.device.type != "cpu":
        return torch_npu.npu_weight_quant_batchmatmul(x.half(), weight.to(torch.int8), scale.half(), scale.half())
    scale = scale.half()
    return (x.detach().half().float() @ ((weight.half() + scale) * scale).float()).half()


def decomposed(full: bool) -> Callable[[torch.Tensor], list[torch.Tensor]]:
    """Return a function that computes singular values, and from all of its results the matrix; signs may differ."""

    def run(x: torch.Tensor) -> list[torch.Tensor]:
        u, s, vh = torch.linalg.svd(x.detach(), full_matrices=full)
        count = s.shape[-1]
        identities = [u.mT @ u, vh @ vh.mT]
        return [s, (u[..., :count] * s[..., None, :]) @ vh[..., :count, :], *identities]

    return run


def factors(mode: str) -> Callable[[torch.Tensor], list[torch.Tensor]]:
    """Return a function that factors a matrix into an orthogonal and a triangular one."""

    def run(x: torch.Tensor) -> list[torch.Tensor]:
        q, r = torch.linalg.qr(x.detach(), mode=mode)
        return [q @ r, q.mT @ q, r.abs()]

    return run


def corners_of_images(images: int, count: int, classes: int) -> Callable[[torch.dtype], torch.Tensor]:
    """Return the factory of boxes of whole numbers for each image, and for each class or for all."""
    return lambda dtype: corners(images * count * classes)(dtype).reshape(images, count, classes, 4)


def shares(*sizes: int) -> Callable[[torch.dtype], torch.Tensor]:
    """Return the factory of different numbers between 0 and 1."""

    def make(dtype: torch.dtype) -> torch.Tensor:
        count = math.prod(sizes)
        return (torch.randperm(count).reshape(sizes).float() / count).to(dtype)

    return make


def best_boxes(per_class: int, total: int) -> Callable[..., list[torch.Tensor]]:
    """Return a function that selects boxes by their scores for each class, and the best of all classes."""

    def run(given: torch.Tensor, scores: torch.Tensor) -> list[torch.Tensor]:
        given = given.detach()
        if given.device.type != "cpu":
            return list(torch_npu.npu_batch_nms(given, scores, 0.2, 0.3, per_class, total))
        images, _, classes, _ = given.shape
        results = [torch.zeros(images, total, size) for size in (4, 1, 1)]
        found = torch.zeros(images, dtype=torch.int32)
        for image in range(images):
            rows: list[tuple[float, int, torch.Tensor]] = []
            for label in range(scores.shape[2]):
                kept: list[torch.Tensor] = []
                for place in scores[image, :, label].float().argsort(descending=True).tolist():
                    box, score = given[image, place, label % classes].float(), float(scores[image, place, label])
                    if score <= 0.2 or len(kept) == per_class:
                        break
                    if all(float(iou_of(box, other)) <= 0.3 for other in kept):
                        kept.append(box)
                        rows.append((score, label, box))
            rows.sort(key=lambda row: -row[0])
            found[image] = min(len(rows), total)
            for place, (score, label, box) in enumerate(rows[:total]):
                results[0][image, place], results[1][image, place], results[2][image, place] = box, score, label
        kind = given.dtype
        return [results[0].to(kind), results[1][..., 0].to(kind), results[2][..., 0].to(kind), found]

    return run


def iou_of(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Return the IoU of two boxes."""
    sides = (torch.minimum(first[2:], second[2:]) - torch.maximum(first[:2], second[:2])).clamp(min=0)
    areas = sum((box[2:] - box[:2]).prod() for box in (first, second))
    return sides.prod() / (areas - sides.prod())


def masked(x: torch.Tensor, mask: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Return softmax with a mask and a bias that are added."""
    return (x.detach().float() * 0.5 + mask + bias).softmax(-1).to(x.dtype)


CASES: list[tuple[str, Callable[..., Any], list[Any]]] = [
    ("lstm", lstm(1, False), [recurrent(4)]),
    ("lstm of two layers", lstm(2, False), [recurrent(4, 2)]),
    ("lstm of two directions", lstm(1, True), [recurrent(4, 1, 2)]),
    ("lstm cell", lstm_cell, [recurrent(4)]),
    ("gru", gru(1, False), [recurrent(3, states=1)]),
    ("gru of two layers", gru(2, False), [recurrent(3, 2, states=1)]),
    ("gru of two directions", gru(1, True), [recurrent(3, 1, 2, states=1)]),
    ("embedding with a largest norm", renormed([0, 2, 3]), [floats(5, 4)]),
    ("npu indexing", old("npu_indexing", steps), [normal(6, 5), *map(constant, ([1, 0], [5, 5], [2, 2]))]),
    ("scatter update", old("scatter_update", updated), [normal(2, 6, 3), numbers(4, 2), normal(2, 2, 3), constant(1)]),
    ("scatter nd", old("npu_scatter_nd_update", updated_places), [normal(6, 3), numbers(6, 1, 1), normal(1, 3)]),
    ("view copy", view_copied, [floats(5, 6), floats(3, 5)]),
    ("npu one hot", old("npu_one_hot", hot), [numbers(6, 3, 4), constant(-1), constant(5)]),
    *(
        (f"npu {kind} {len(sizes[0]) - 2}d", convolution(kind != "conv"), [small(*sizes), constant(given)])
        for kind, sizes, given in (
            ("conv", [(2, 4, 6, 6), (6, 2, 3, 3), (6,)], [None, [2, 1], [1, 0], [1, 2], 2]),
            ("conv", [(2, 2, 5, 5, 4), (3, 2, 3, 3, 2), (3,)], [None, [1, 1, 1], [1, 0, 1], [1, 1, 1], 1]),
            ("transposed conv", [(2, 4, 5, 5), (4, 3, 3, 3), (3,)], [[1, 0], [2, 1], [1, 0], [1, 1], 1]),
            (
                "transposed conv",
                [(1, 2, 3, 4, 4), (2, 3, 2, 3, 3), (3,)],
                [[0, 0, 0], [1, 2, 1], [0, 1, 1], [1, 1, 1], 1],
            ),
        )
    ),
    *(
        (f"svd of {sizes}, full {full}", decomposed(full), [lambda dtype, sizes=sizes: torch.randn(sizes)])
        for sizes in ((4, 3), (2, 3, 5))
        for full in (False, True)
    ),
    ("singular values", lambda x: torch.linalg.svdvals(x.detach()), [floats(2, 3, 5)]),
    *(
        (f"qr of {sizes}, {mode}", factors(mode), [lambda dtype, sizes=sizes: torch.randn(sizes)])
        for sizes in ((4, 3), (2, 3, 5))
        for mode in ("reduced", "complete")
    ),
    *(
        (
            f"norm of the power {power}, {axes}",
            lambda x, p=power, a=axes: torch.linalg.vector_norm(x, p, a),
            [normal(3, 4)],
        )
        for power in (0, 1, 2, 3.5, -2, math.inf, -math.inf)
        for axes in (None, 0, (0, 1))
    ),
    *(
        (
            f"boxes of classes, {per_class} each, {total} together",
            best_boxes(per_class, total),
            [given, shares(2, 9, 3)],
        )
        for given in (corners_of_images(2, 9, 1), corners_of_images(2, 9, 3))
        for per_class, total in ((3, 20), (9, 5))
    ),
    ("jit linear", compiled(old("npu_linear", F.linear)), [normal(3, 4), normal(5, 4), normal(5)]),
    ("npu linear", old("npu_linear", F.linear, True), [normal(3, 4), normal(5, 4), normal(5)]),
    (
        "npu layer norm",
        old("npu_layer_norm_eval", lambda x, sizes, w, b: F.layer_norm(x, sizes, w, b)),
        [normal(3, 4), constant([4]), normal(4), normal(4)],
    ),
    ("deformable", deformable, [lambda dtype: small((2, 4, 5, 6), (3, 4, 3, 3), (2, 54, 5, 6))(torch.float32)]),
    ("soft cross entropy", npu_soft_cross_entropy, [normal(4, 5), normal(4, 5)]),
    ("affine grid", lambda x: F.affine_grid(x, [2, 3, 4, 5], align_corners=True), [floats(2, 2, 3)]),
    ("ctc loss", ctc, [floats(6, 2, 5), lambda dtype: torch.randint(1, 5, (2, 3))]),
    ("npu dropout", dropped_with_bits, [lambda dtype: torch.zeros(1)]),
    ("softmax with dropout", softmax_dropout(0.0), [normal(3, 4, 8, 8), normal(3, 4, 8, 8)]),
    ("softmax with half of it dropped", softmax_dropout(0.5), [floats(3, 4, 8, 8), floats(3, 4, 8, 8)]),
    *((f"npu {kind}", overlap(kind), [boxes(7), boxes(7)]) for kind in ("giou", "diou", "ciou")),
    *(
        (
            f"npu {kind} of both",
            lambda pair, kind=kind: overlap(kind)(*pair),
            [lambda dtype: [boxes(9)(dtype), boxes(9)(dtype)]],
        )
        for kind in ("giou", "diou")
    ),
    (
        "npu sign bits unpack",
        unpacked_signs,
        [lambda dtype: torch.arange(24, dtype=torch.uint8) * 9, lambda dtype: dtype],
    ),
    ("npu iou", iou, [corners(3), corners(4)]),
    ("boxes by anchors", coded, [corners(5), corners(5)]),
    ("boxes by cells", yolo, [corners(5), corners(5)]),
    ("flags of cells", flags, [corners(5)]),
    ("boxes of anchors", assigned, [floats(4), positive(4), numbers(2, 4)]),
    *((f"roi align {mode}", aligned(mode), [floats(2, 3, 8, 8)]) for mode in (0, 3)),
    ("ps roi pooling", pooled, [floats(2, 12, 9, 9)]),
    ("anti quant", restored, [numbers(9, 3, 4), floats(4), floats(4)]),
    ("anti quant of 4 bits", restored_fours, [lambda dtype: torch.randint(-8, 8, (3, 16)), floats(16)]),
    ("matrix of 8 bits", weighed, [normal(3, 4), numbers(9, 4, 5), floats(5)]),
    (
        "masked softmax",
        fused("npu_masked_softmax_with_rel_pos_bias", lambda x, m, b, s: masked(x, m, b)),
        [floats(1, 2, 3, 4, 4), floats(1, 2, 1, 4, 4), floats(1, 1, 3, 4, 4), constant(0.5)],
    ),
]
