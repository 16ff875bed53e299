"""Boxes against documented examples, mmdet's formulas and mmcv's suppression."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from comparing import to_npu
from npu_operators import assert_on, doubles, gradients, on_device
from torch import Tensor
from torch.autograd import gradcheck

from npu_emulator.errors import NotEmulated
from npu_emulator.torch_npu.ops import boxes

CLOSE: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-12}
#: Of op-plugin's documentation of npu_iou.
BBOXES = torch.tensor([[0, 0, 10, 10], [10, 10, 20, 20], [32, 32, 38, 42]], dtype=torch.float64)
GTBOXES = torch.tensor([[0, 0, 10, 20], [0, 10, 10, 10], [10, 10, 20, 20]], dtype=torch.float64)


def corner_boxes(count: int, seed: int = 0) -> Tensor:
    """Return boxes (x1, y1, x2, y2) of sizes 1 to 5 that begin between 0 and 4, float64."""
    generator = torch.Generator().manual_seed(seed)
    low = torch.rand(count, 2, dtype=torch.float64, generator=generator) * 4
    return torch.cat((low, low + 1 + torch.rand(count, 2, dtype=torch.float64, generator=generator) * 4), dim=1)


def centered(boxes: Tensor) -> Tensor:
    """Return (centre x, centre y, width, height)."""
    return torch.cat(((boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]), dim=1)


class TestIou:
    @pytest.mark.parametrize("mode", [0, 1])
    def test_is_that_of_mmdet_up_to_its_epsilon(self, device: str, mode: int) -> None:
        bbox_overlaps = pytest.importorskip("mmdet.structures.bbox").bbox_overlaps
        bboxes, gtboxes = corner_boxes(6), corner_boxes(4, seed=1)
        expected = bbox_overlaps(gtboxes, bboxes, mode="iof" if mode else "iou")
        assert_on(device, on_device(device, "npu_iou", bboxes, gtboxes, mode), expected, rtol=0, atol=2e-3)

    def test_epsilon_is_added_to_both(self, device: str) -> None:
        expected = torch.tensor([[100.001 / 200.001]], dtype=torch.float64)
        assert_on(device, on_device(device, "npu_iou", BBOXES[:1], GTBOXES[:1]), expected, **CLOSE)

    def test_ptiou_adds_it_to_the_union_alone(self, device: str) -> None:
        expected = torch.tensor([[100 / 200.001]], dtype=torch.float64)
        assert_on(device, on_device(device, "npu_ptiou", BBOXES[:1], GTBOXES[:1]), expected, **CLOSE)

    def test_an_unknown_mode_is_an_error(self, device: str) -> None:
        with pytest.raises(ValueError, match="npu_iou: expected mode 0 or 1, found 2"):
            on_device(device, "npu_iou", BBOXES, GTBOXES, 2)


@pytest.mark.parametrize("trans", [False, True], ids=["corners", "centers"])
class TestPairedOverlaps:
    def paired(self, trans: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Boxes and partners as mmdet takes them, and as the operators do."""
        plain = corner_boxes(8), corner_boxes(8, seed=1)
        ours = [(centered(side) if trans else side).T for side in plain]
        return (*plain, *ours)

    def test_giou_is_that_of_mmdet(self, device: str, trans: bool) -> None:
        bbox_overlaps = pytest.importorskip("mmdet.structures.bbox").bbox_overlaps
        first, second, ours, partners = self.paired(trans)
        expected = bbox_overlaps(first, second, mode="giou", is_aligned=True).unsqueeze(1)
        assert_on(device, on_device(device, "npu_giou", ours, partners, trans), expected, **CLOSE)

    def test_diou_is_that_of_mmdet(self, device: str, trans: bool) -> None:
        diou_loss = pytest.importorskip("mmdet.models.losses.iou_loss").diou_loss
        first, second, ours, partners = self.paired(trans)
        expected = 1 - diou_loss(first, second, reduction="none", eps=0).unsqueeze(0)
        assert_on(device, on_device(device, "npu_diou", ours, partners, trans), expected, **CLOSE)

    @pytest.mark.parametrize("operator", [boxes.npu_giou, boxes.npu_diou], ids=["giou", "diou"])
    def test_gradients(self, operator: Any, trans: bool) -> None:
        *_, ours, partners = self.paired(trans)
        leaves = [side[:, :4].contiguous().requires_grad_() for side in (ours, partners)]
        assert gradcheck(lambda *args: operator(*args, trans, False), leaves)

    @pytest.mark.parametrize("name", ["npu_giou", "npu_diou", "npu_ciou"])
    def test_crossing_and_modes_are_not_emulated(self, device: str, name: str, trans: bool) -> None:
        *_, ours, partners = self.paired(trans)
        with pytest.raises(
            NotEmulated, match=f"{name}: is_cross=True, mode=0 is not emulated; pass is_cross=False, mode=0"
        ):
            on_device(device, name, ours, partners, trans, True)
        with pytest.raises(NotEmulated, match="is_cross=False, mode=1"):
            on_device(device, name, ours, partners, trans, False, 1)

    @pytest.mark.parametrize("name", ["npu_giou", "npu_diou", "npu_ciou"])
    def test_boxes_in_rows_are_an_error(self, device: str, name: str, trans: bool) -> None:
        with pytest.raises(ValueError, match=r"expected two tensors of shape \(4, n\), found \(5, 4\) and \(5, 4\)"):
            on_device(device, name, doubles(5, 4), doubles(5, 4), trans, False)


class TestCiou:
    def expected(self, first: Tensor, second: Tensor) -> Tensor:
        """Equations 10 and 11 of arXiv:1911.08287, with the weight of the aspect ratios held constant."""
        iou = pytest.importorskip("mmdet.structures.bbox").bbox_overlaps(first, second, is_aligned=True, eps=1e-30)
        diou_loss = pytest.importorskip("mmdet.models.losses.iou_loss").diou_loss
        sizes, other_sizes = first[:, 2:] - first[:, :2], second[:, 2:] - second[:, :2]
        angle, other_angle = torch.atan2(*sizes.T), torch.atan2(*other_sizes.T)
        aspect = 4 / torch.pi**2 * (other_angle - angle) ** 2
        weight = (aspect / (1 - iou + aspect)).detach()
        return (1 - diou_loss(first, second, reduction="none", eps=0) - weight * aspect).unsqueeze(0)

    def test_is_that_of_the_paper(self, device: str) -> None:
        first, second = corner_boxes(8).requires_grad_(), corner_boxes(8, seed=1)
        wanted = self.expected(first, second)
        ours, partners = to_npu((first, second), device)
        found = torch.ops.npu.npu_ciou(ours.T, partners.T, False, False)
        assert_on(device, found, wanted, **CLOSE)
        assert_on(device, gradients(found, ours)[0], gradients(wanted, first)[0], **CLOSE)

    def test_results_of_the_device(self, device: str) -> None:
        # From op-plugin's test of torch_npu.contrib.function.npu_ciou: columns (centre x, centre y, width, height).
        first = torch.tensor([[0, 0, 10, 10], [10, 10, 20, 20], [32, 32, 38, 42], [8, 8, 4, 4]], dtype=torch.float32)
        second = torch.tensor([[0, 0, 10, 20], [0, 10, 10, 10], [10, 10, 20, 20], [8, 8, 4, 4]], dtype=torch.float32)
        expected = torch.tensor([[-0.0794, 0.3052, -0.0610, -0.1021]])
        assert_on(
            device, on_device(device, "npu_ciou", first, second, True, False, 0, True), expected, rtol=0, atol=1e-3
        )


class TestCoding:
    def test_is_that_of_mmdets_first_coder(self, device: str) -> None:
        coder = pytest.importorskip("mmdet.models.task_modules.coders").LegacyDeltaXYWHBBoxCoder
        means, deviations = (0.1, -0.2, 0.3, 0.05), (0.1, 0.1, 0.2, 0.2)
        anchors, truth = corner_boxes(6).float() * 5, corner_boxes(6, seed=1).float() * 5
        theirs = coder(means, deviations)
        encoded = theirs.encode(anchors, truth)
        assert_on(device, on_device(device, "npu_bounding_box_encode", anchors, truth, *means, *deviations), encoded)
        # Its decoder leaves out the half pixels by which corners that belong to a box lie inside, and says so.
        half = torch.tensor([0.5, 0.5, -0.5, -0.5])
        last = torch.tensor([39.0, 29, 39, 29])
        decoded = theirs.decode(anchors, encoded * 2, wh_ratio_clip=16 / 1000) + half
        wanted = torch.minimum(decoded.clamp(min=0), last)
        found = on_device(
            device, "npu_bounding_box_decode", anchors, encoded * 2, *means, *deviations, (30, 40), 16 / 1000
        )
        assert_on(device, found, wanted)


def test_anchor_response_flags(device: str) -> None:
    truth = torch.tensor([[0.0, 0, 9, 9], [35, 10, 55, 30], [200, 200, 300, 300]])
    flags = on_device(device, "npu_anchor_response_flags", truth, [3, 4], [10, 20], 2).cpu()
    expected = torch.zeros(3, 4, 2, dtype=torch.uint8)
    # Centres (4.5, 4.5), (45, 20), and one outside, which counts with the last cell: rows of 20, columns of 10 pixels.
    for row, column in ((0, 0), (1, 3), (2, 3)):
        expected[row, column] = 1
    assert torch.equal(flags, expected.flatten())


class TestSuppression:
    def scored(self, count: int = 40) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(3)
        return corner_boxes(count).float(), torch.rand(count, generator=generator)

    def test_v4_selects_what_mmcv_keeps(self, device: str) -> None:
        nms = pytest.importorskip("mmcv.ops").nms
        candidates, scores = self.scored()
        kept = nms(candidates, scores, 0.4, score_threshold=0.3)[1]
        thresholds = torch.tensor(0.4), torch.tensor(0.3)
        selected, count = on_device(device, "npu_nms_v4", candidates, scores, 30, *thresholds)
        assert (selected.shape, selected.dtype, count.dtype) == ((30,), torch.int32, torch.int32)
        assert 3 < count.item() == kept.numel() < 30
        assert selected[: count.item()].tolist() == kept.tolist()

    def test_v4_stops_at_its_size(self, device: str) -> None:
        candidates, scores = self.scored()
        thresholds = torch.tensor(0.4), torch.tensor(0.3)
        everything = on_device(device, "npu_nms_v4", candidates, scores, 30, *thresholds)[0]
        selected, count = on_device(device, "npu_nms_v4", candidates, scores, 3, *thresholds)
        assert (selected.tolist(), count.item()) == (everything[:3].tolist(), 3)

    def test_mask_marks_what_mmcv_keeps(self, device: str) -> None:
        nms = pytest.importorskip("mmcv.ops").nms
        candidates, scores = self.scored()
        order = scores.argsort(descending=True)
        dets = torch.cat((candidates, scores[:, None]), dim=1)[order]
        kept = nms(dets[:, :4].contiguous(), dets[:, 4].contiguous(), 0.4)[1]
        output, indices, mask = on_device(device, "npu_nms_with_mask", dets, 0.4)
        assert_on(device, output, dets)
        assert indices.tolist() == list(range(40))
        assert mask.dtype == torch.uint8
        assert mask.cpu().nonzero().flatten().tolist() == kept.tolist()

    @pytest.mark.parametrize("boxes_per_class", [1, 3])
    def test_batches_select_what_mmcv_keeps_per_class(self, device: str, boxes_per_class: int) -> None:
        nms = pytest.importorskip("mmcv.ops").nms
        candidates = corner_boxes(2 * 12 * boxes_per_class).view(2, 12, boxes_per_class, 4).float()
        scores = doubles(2, 12, 3).sigmoid().float()
        selected = on_device(device, "npu_batch_nms", candidates, scores, 0.3, 0.4, 4, 7)
        for image, (found, best, labels, count) in enumerate(zip(*(output.cpu() for output in selected))):
            expected = []
            for label in range(3):
                of_class = candidates[image, :, label % boxes_per_class].contiguous()
                confidence = scores[image, :, label].contiguous()
                kept = nms(of_class, confidence, 0.4, score_threshold=0.3)[1][:4]
                expected += [(*of_class[k].tolist(), confidence[k].item(), float(label)) for k in kept]
            expected = sorted(expected, key=lambda row: -row[4])[:7]
            assert count.item() == len(expected) > 0
            rows = torch.cat((found, best[:, None], labels[:, None]), dim=1)
            torch.testing.assert_close(rows[: len(expected)], torch.tensor(expected))
            assert rows[len(expected) :].count_nonzero() == 0

    def test_frames_of_coordinates_are_not_emulated(self, device: str) -> None:
        with pytest.raises(NotEmulated, match="npu_batch_nms: change_coordinate_frame"):
            on_device(device, "npu_batch_nms", doubles(1, 2, 1, 4), doubles(1, 2, 1), 0.3, 0.5, 4, 4, True)
