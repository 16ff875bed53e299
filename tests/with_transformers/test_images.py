"""The device on which fast image processors of transformers 4 work."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from comparing_models import MAJOR

import patchcore as pc
from transformers_npu.processing.images import FAST_IMAGES

pytestmark = pytest.mark.skipif(MAJOR >= 5, reason="transformers 5 has other classes")


@pytest.fixture
def processor() -> Any:
    """Return a fast processor that returns the device on which it was to work."""
    from transformers.image_processing_utils_fast import BaseImageProcessorFast

    class Processor(BaseImageProcessorFast):
        _valid_kwargs_names = ("do_convert_rgb", "input_data_format", "device", "data_format")

        def __init__(self) -> None:
            self.device = None

        def _validate_preprocess_kwargs(self, **kwargs: Any) -> None: ...

        def _further_process_kwargs(self, **kwargs: Any) -> dict[str, Any]:
            return kwargs

        def _prepare_input_images(self, images: Any, *args: Any, device: Any, **kwargs: Any) -> Any:  # before 4.55
            return device

        def _preprocess(self, images: Any, **kwargs: Any) -> Any:
            return images

        def _preprocess_image_like_inputs(self, images: Any, *args: Any, device: Any, **kwargs: Any) -> Any:
            return device

    return Processor()


def test_pictures_are_processed_on_the_npu_if_no_device_is_chosen(processor: Any) -> None:
    pictures = torch.zeros(1, 3, 8, 8)
    assert processor.preprocess(pictures) is None
    with pc.Patcher([FAST_IMAGES], enable=FAST_IMAGES) as patcher:
        assert patcher.report()[FAST_IMAGES.name].status == "applied"
        assert processor.preprocess(pictures) == torch.device("npu", torch.npu.current_device())
        assert processor.preprocess(pictures, device="cpu") == "cpu"
        processor.device = "npu:1"
        assert processor.preprocess(pictures) == "npu:1"
    processor.device = None
    assert processor.preprocess(pictures) is None


def test_the_patch_is_applied_on_request_only() -> None:
    with pc.Patcher([FAST_IMAGES]) as patcher:
        assert patcher.report()[FAST_IMAGES.name].status == "skipped"
