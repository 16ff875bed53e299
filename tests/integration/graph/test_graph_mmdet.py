"""Detectors of real mmdet: backbone, neck, transformer and head, compiled each by itself, train and predict as eager.

What stays eager, and where dynamo breaks graphs, is a short list, written down here, so that more of it is noticed.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

pytest.importorskip("mmcv._ext", reason="the detectors need mmcv with its compiled operators")
pytest.importorskip("mmdet", minversion="3.0")

from examples.mmdet_training.detectors import DETECTORS
from examples.mmdet_training.training import compile_parts
from npu_graph.pipeline import compile_graph
from npu_graph.recording import records

#: Of the largest magnitude of each tensor. The detectors are conditioned so that rounding stays rounding.
LOSS, GRADIENT = 1e-5, 1e-4
SIZES = ((96, 128), (128, 96))

#: Memory that mmcv makes for its kernels, and strides that a view of another graph's result is told to have.
EAGER = {
    "retinanet": {"aten.empty.memory_format", "aten.as_strided.default"},
    # and an assertion on sizes that are tensors
    "deformable_detr": {"aten.new_empty_strided.default", "aten.as_strided.default", "aten._assert_async.msg"},
}
#: The functions of mmcv and mmdet that dynamo does not trace through: kernels in C++, sizes that are read from tensors.
BREAKS = {
    "retinanet": {"deform_conv.py: forward", "modulated_deform_conv.py: forward"},
    "deformable_detr": {
        "deformable_detr_layers.py: get_encoder_reference_points",
        "multi_scale_deform_attn.py: multi_scale_deformable_attn_pytorch",
    },
}


def make(name: str) -> Any:
    from mmdet.registry import MODELS
    from mmengine.logging import MMLogger
    from mmengine.registry import DefaultScope

    # mmdet logs each weight that it initialises
    MMLogger.get_instance("mmengine", log_level="ERROR").setLevel("ERROR")
    with DefaultScope.overwrite_default_scope("mmdet"):
        import mmdet.models  # noqa: F401  (registers what the configuration names)

        detector = MODELS.build(DETECTORS[name](3))
        detector.init_weights()
    return detector


def batch(height: int, width: int) -> tuple[torch.Tensor, list[Any]]:
    """Two images of noise and what is on them."""
    from mmdet.structures import DetDataSample
    from mmengine.structures import InstanceData

    samples = []
    for shift in (0, 7):
        sample = DetDataSample(
            metainfo={
                **dict.fromkeys(("img_shape", "batch_input_shape", "ori_shape", "pad_shape"), (height, width)),
                "scale_factor": (1.0, 1.0),
            }
        )
        boxes = torch.tensor([[8.0, 8.0, 40.0, 50.0], [30.0, 10.0, 90.0, 60.0]]) + shift
        sample.gt_instances = InstanceData(bboxes=boxes, labels=torch.tensor([0, 2]))
        samples.append(sample)
    return torch.randn(2, 3, height, width), samples


def near(got: torch.Tensor, wanted: torch.Tensor, tolerance: float) -> bool:
    largest = float(wanted.abs().max()) or 1.0
    return got.shape == wanted.shape and float((got - wanted).abs().max()) <= tolerance * largest


def train(detector: Any, images: torch.Tensor, samples: list[Any]) -> dict[str, torch.Tensor]:
    """One step without the optimiser; losses are added up per level of the pyramid."""
    detector.zero_grad()
    losses = detector.loss(images, samples)
    summed = {name: sum(each) if isinstance(each, list) else each for name, each in losses.items()}
    sum(summed.values()).backward()
    return {name: loss.detach() for name, loss in summed.items()}


def breaks() -> set[str]:
    from torch._dynamo.utils import graph_break_reasons

    places = [each.user_stack[-1] for each in graph_break_reasons]
    return {f"{place.filename.rpartition('/')[2]}: {place.name}" for place in places}


@pytest.fixture
def compiled_for(vendor: Any) -> Any:
    from torch._dynamo.utils import graph_break_reasons

    graph_break_reasons.clear()

    def backend(graph: Any, inputs: Any) -> Any:
        return compile_graph(vendor, graph, inputs)

    def compile(detector: Any, dynamic: bool) -> int:
        compile_parts(detector, backend, dynamic=dynamic)
        return len(records())

    return compile


@pytest.mark.parametrize(
    ("vendor", "name", "dynamic"),
    [("reference", "retinanet", False), pytest.param("c", "deformable_detr", True, marks=pytest.mark.slow)],
    indirect=["vendor"],
)
def test_a_detector_trains_as_it_does_without(vendor: Any, compiled_for: Any, name: str, dynamic: bool) -> None:
    detector = make(name)
    twin = copy.deepcopy(detector)
    before = compiled_for(detector, dynamic)
    for size in SIZES if dynamic else SIZES[:1]:
        compiled = len(records())
        images, samples = batch(*size)
        got, wanted = train(detector, images, samples), train(twin, images, samples)
        assert got.keys() == wanted.keys()
        for loss, value in wanted.items():
            assert near(got[loss], value, LOSS), f"{loss}, {size}"
        gradients = dict(twin.named_parameters())
        for parameter, value in detector.named_parameters():
            expected = gradients[parameter].grad
            assert (value.grad is None) == (expected is None), parameter
            assert expected is None or near(value.grad, expected, GRADIENT), f"gradient of {parameter}, {size}"
        for buffer, value in detector.named_buffers():
            assert near(value, dict(twin.named_buffers())[buffer], LOSS), f"{buffer}, {size}"
    own = records()[before:]
    assert len(records()) == compiled or not dynamic, "the second size needed graphs of its own"
    assert {record.kind for record in own} >= {"forward", "backward"}
    assert {node.operator for record in own for node in record.eager} <= EAGER[name]
    assert sum(len(record.converted) for record in own) > 1000
    assert breaks() == BREAKS[name]
