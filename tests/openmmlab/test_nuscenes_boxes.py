"""``mmdet3d.nuscenes_dataset`` and ``mmdet3d.nuscenes_metric``: the boxes are mmdet3d's own, bit for bit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mmdet3d_libraries import MMCV_MAJOR, CameraBoxes, DepthBoxes, LidarBoxes, conversion
from pyquaternion import Quaternion

import patchcore as pc
from mmdet3d_npu.nuscenes_boxes import NUSCENES_DATASET, NUSCENES_METRIC

_function = conversion.output_to_nusc_box
#: A copy: a name for the function itself would be rebound with all others when the patch is applied.
ORIGINAL = FunctionType(_function.__code__, vars(conversion), argdefs=_function.__defaults__)
PATCH = {1: NUSCENES_DATASET, 2: NUSCENES_METRIC}[MMCV_MAJOR]
BOXES = "boxes_3d" if MMCV_MAJOR == 1 else "bboxes_3d"
CONVERTED = [LidarBoxes] if MMCV_MAJOR == 1 else [LidarBoxes, CameraBoxes]
#: Angles at which sine, cosine or pyquaternion itself do something special.
SPECIAL_ANGLES = [
    0.0,
    -0.0,
    1e-45,
    -1e-45,
    1e-20,
    math.pi / 2,
    -math.pi / 2,
    math.pi,
    -math.pi,
    4 * math.pi,
    1e4,
    -1e30,
]

of_every_type = pytest.mark.parametrize("box_type", CONVERTED, ids=lambda box_type: box_type.__name__)


@pytest.fixture
def patched() -> Iterator[Callable[..., Any]]:
    """The function that stands in for the original."""
    with pc.Patcher([PATCH], strict=True) as patcher:
        assert patcher.report()[PATCH.name].status == "applied"
        yield conversion.output_to_nusc_box


def detection_of(box_type: type, count: int, *, columns: int = 9, seed: int = 0, **changes: Any) -> dict[str, Any]:
    """Return a detection with random boxes.

    Args:
        box_type: a class of boxes.
        count: how many.
        columns: of their tensor, 7 without velocities.
        seed: of the random numbers.
        changes: ``dtype`` of the boxes' tensor, ``scores`` and ``labels`` for dtypes other than mmdet3d's, ``angles``
            for the first boxes, ``attributes`` for predicted attributes.
    """
    generator = torch.Generator().manual_seed(seed)
    tensor = torch.randn(count, columns, generator=generator)
    tensor[:, :3] *= 50
    tensor[:, 3:6] = tensor[:, 3:6].abs()
    tensor[:, 6] *= math.pi
    angles = changes.get("angles", ())
    tensor[: len(angles), 6] = torch.tensor(angles)
    boxes = box_type(tensor, box_dim=columns)
    boxes.tensor = boxes.tensor.to(changes.get("dtype", torch.float32))
    detection = {
        BOXES: boxes,
        "scores_3d": torch.rand(count, generator=generator).to(changes.get("scores", torch.float32)),
        "labels_3d": torch.randint(10, (count,), generator=generator).to(changes.get("labels", torch.int64)),
    }
    if changes.get("attributes"):
        detection["attr_labels"] = torch.randint(9, (count,), generator=generator)
    return detection


class Shown(NamedTuple):
    """An array as everything that can be seen of it; two are equal when every bit is."""

    dtype: Any
    shape: tuple[int, ...]
    content: bytes
    owns_its_memory: bool
    writeable: bool


def shown(value: Any) -> Any:
    """Return ``value`` in a form in which equal means the same type and the same bits."""
    if isinstance(value, np.ndarray):
        return Shown(value.dtype, value.shape, value.tobytes(), value.flags.owndata, value.flags.writeable)
    if isinstance(value, Quaternion):
        return type(value), {name: shown(each) for name, each in vars(value).items()}
    if isinstance(value, (list, tuple)):
        return type(value), [shown(each) for each in value]
    if isinstance(value, conversion.NuScenesBox):
        return type(value), {name: shown(each) for name, each in vars(value).items()}
    return type(value), repr(value)


def assert_same(patched: Callable[..., Any], detection: dict[str, Any], *arguments: Any) -> Any:
    """Check that ``patched`` returns what the original does; return it."""
    expected, actual = ORIGINAL(detection, *arguments), patched(detection, *arguments)
    assert shown(actual) == shown(expected)
    return actual


def boxes_in(converted: Any) -> list[Any]:
    return converted if MMCV_MAJOR == 1 else converted[0]


class TestSameBoxes:
    @of_every_type
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
    @given(
        count=st.integers(0, 40),
        seed=st.integers(0, 2**32),
        angles=st.lists(st.floats(-1e3, 1e3, width=32), max_size=20),
        dtype=st.sampled_from([torch.float32, torch.float64, torch.float16]),
        scores=st.sampled_from([torch.float32, torch.float64, torch.float16]),
        labels=st.sampled_from([torch.int64, torch.int32, torch.uint8]),
        attributes=st.booleans(),
    )
    def test_any_values_and_dtypes(self, patched: Any, box_type: type, count: int, **changes: Any) -> None:
        changes["angles"] = changes["angles"][:count]
        assert_same(patched, detection_of(box_type, count, **changes))

    @of_every_type
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
    @pytest.mark.parametrize("angle", SPECIAL_ANGLES)
    def test_special_angles(self, patched: Any, box_type: type, angle: float, dtype: Any) -> None:
        assert_same(patched, detection_of(box_type, 3, angles=[angle, 0.3], dtype=dtype))

    def test_lidar_boxes_without_velocities_keep_the_one_element_that_mmdet3d_gives_them(self, patched: Any) -> None:
        converted = assert_same(patched, detection_of(LidarBoxes, 3, columns=7))
        assert [box.velocity.shape for box in boxes_in(converted)] == [(1,)] * 3

    @pytest.mark.openmmlab(1)
    @pytest.mark.parametrize("columns", [7, 9])
    def test_velocities_that_are_not_asked_for_are_integer_zeros(self, patched: Any, columns: int) -> None:
        detection = detection_of(LidarBoxes, 3, columns=columns)
        converted = assert_same(patched, detection, False)
        assert shown(converted) == shown(patched(detection, with_velocity=False))
        assert {box.velocity.dtype for box in converted} == {np.dtype(int)}

    @pytest.mark.openmmlab(1)
    @pytest.mark.parametrize("box_type", [CameraBoxes, DepthBoxes], ids=lambda box_type: box_type.__name__)
    def test_mmdet3d_1_0_takes_every_type_for_lidar_boxes(self, patched: Any, box_type: type) -> None:
        assert_same(patched, detection_of(box_type, 5))

    @of_every_type
    def test_a_score_that_is_no_number_keeps_its_type(self, patched: Any, box_type: type) -> None:
        detection = detection_of(box_type, 3)
        detection["scores_3d"][1] = math.nan
        converted = assert_same(patched, detection)
        assert isinstance(boxes_in(converted)[1].score, np.float32)

    @of_every_type
    def test_velocities_that_are_no_numbers(self, patched: Any, box_type: type) -> None:
        detection = detection_of(box_type, 3)
        detection[BOXES].tensor[1, 7], detection[BOXES].tensor[2, 8] = math.nan, math.inf
        assert_same(patched, detection)

    @of_every_type
    def test_scores_and_labels_beyond_the_boxes_are_ignored(self, patched: Any, box_type: type) -> None:
        more, fewer = detection_of(box_type, 5), detection_of(box_type, 3)
        assert len(boxes_in(assert_same(patched, {**more, BOXES: fewer[BOXES]}))) == 3

    @of_every_type
    def test_predictions_of_a_model_on_the_npu(self, patched: Any, device: Any, box_type: type) -> None:
        detection = detection_of(box_type, 20)
        returned = {name: value.to(device).to("cpu") for name, value in detection.items()}
        assert shown(patched(returned)) == shown(ORIGINAL(detection))


@pytest.mark.openmmlab(2)
class TestAttributes:
    @of_every_type
    def test_they_share_the_memory_of_the_tensor(self, patched: Any, box_type: type) -> None:
        detection = detection_of(box_type, 4, attributes=True)
        _, attributes = assert_same(patched, detection)
        detection["attr_labels"][2] = 77
        assert attributes[2] == 77

    @of_every_type
    def test_none_without_any(self, patched: Any, box_type: type) -> None:
        assert assert_same(patched, detection_of(box_type, 4))[1] is None


class TestIndependence:
    @of_every_type
    def test_boxes_share_nothing_with_each_other_or_the_detection(self, patched: Any, box_type: type) -> None:
        detection = detection_of(box_type, 3)
        boxes, untouched = boxes_in(patched(detection)), boxes_in(patched(detection))
        before = {name: value.tensor.clone() if name == BOXES else value.clone() for name, value in detection.items()}
        boxes[0].translate(np.ones(3))
        boxes[0].wlh *= 2
        boxes[0].velocity += 1
        boxes[0].orientation.q[:] = 0.5
        boxes[0].label, boxes[0].token = 99, "changed"
        assert shown(boxes[1:]) == shown(untouched[1:])
        for name, value in detection.items():
            assert torch.equal(value.tensor if name == BOXES else value, before[name])


def short_of(name: str) -> Callable[[dict[str, Any]], None]:
    def cut(detection: dict[str, Any]) -> None:
        detection[name] = detection[name][:-1]

    return cut


def with_box_value(column: int, value: float) -> Callable[[dict[str, Any]], None]:
    def put(detection: dict[str, Any]) -> None:
        detection[BOXES].tensor[1, column] = value

    return put


def on_the_npu(detection: dict[str, Any]) -> None:
    detection.update({name: value.to("npu") for name, value in detection.items()})


def only_boxes_on_the_npu(detection: dict[str, Any]) -> None:
    detection[BOXES] = detection[BOXES].to("npu")


def without_scores(detection: dict[str, Any]) -> None:
    del detection["scores_3d"]


def with_gradients(detection: dict[str, Any]) -> None:
    detection[BOXES].tensor.requires_grad_()


SPOILED = {
    "fewer scores": short_of("scores_3d"),
    "fewer labels": short_of("labels_3d"),
    "no scores": without_scores,
    "a centre that is no number": with_box_value(0, math.nan),
    "a size that is no number": with_box_value(4, math.nan),
    "an infinite angle": with_box_value(6, math.inf),
    "on the NPU": on_the_npu,
    "boxes on the NPU": only_boxes_on_the_npu,
    "boxes with gradients": with_gradients,
}


class TestErrors:
    @of_every_type
    @pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
    def test_same_error_as_without_the_patch(self, patched: Any, box_type: type, spoil: Any) -> None:
        detection = detection_of(box_type, 3)
        spoil(detection)
        with pytest.raises(Exception) as expected:
            ORIGINAL(detection)
        with pytest.raises(Exception) as actual:
            patched(detection)
        assert (actual.type, str(actual.value)) == (expected.type, str(expected.value))

    @of_every_type
    def test_angle_that_is_no_number_is_no_error(self, patched: Any, box_type: type) -> None:
        detection = detection_of(box_type, 3, angles=[math.nan])
        assert_same(patched, detection)
        assert np.isnan(boxes_in(patched(detection))[0].orientation.elements).all()

    @pytest.mark.openmmlab(2)
    def test_camera_boxes_without_velocities(self, patched: Any) -> None:
        with pytest.raises(IndexError):
            patched(detection_of(CameraBoxes, 3, columns=7))
        assert_same(patched, detection_of(CameraBoxes, 0, columns=7))

    @pytest.mark.openmmlab(2)
    def test_other_types_of_boxes(self, patched: Any) -> None:
        with pytest.raises(NotImplementedError, match=r"Do not support convert .*DepthInstance3DBoxes"):
            patched(detection_of(DepthBoxes, 3))


class TestHowTheyAreMade:
    @of_every_type
    def test_no_quaternion_is_built_from_an_axis_and_an_angle(
        self, patched: Any, box_type: type, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        built = []
        build = Quaternion._from_axis_angle.__func__

        def counting(cls: type, axis: Any, angle: float) -> Any:
            built.append(angle)
            return build(cls, axis, angle)

        monkeypatch.setattr(Quaternion, "_from_axis_angle", classmethod(counting))
        detection = detection_of(box_type, 7)
        patched(detection)
        assert not built
        ORIGINAL(detection)
        assert len(built) >= 7

    @of_every_type
    def test_by_the_class_that_the_library_refers_to(
        self, patched: Any, box_type: type, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Box(conversion.NuScenesBox):
            pass

        monkeypatch.setattr(conversion, "NuScenesBox", Box)
        assert {type(box) for box in boxes_in(patched(detection_of(box_type, 2)))} == {Box}


def test_revert_puts_the_original_back() -> None:
    with pc.Patcher([PATCH], strict=True):
        assert conversion.output_to_nusc_box.__code__ is not ORIGINAL.__code__
    assert conversion.output_to_nusc_box.__code__ is ORIGINAL.__code__


def test_the_patch_of_the_other_line_is_skipped_with_its_reason() -> None:
    other = NUSCENES_METRIC if MMCV_MAJOR == 1 else NUSCENES_DATASET
    record = pc.Patcher([other]).plan()[other.name]
    assert record.verdict != "apply"
    assert f"requires {other.requires[0]}, found mmdet3d" in record.reason
