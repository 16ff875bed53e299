"""Qwen3-VL's masks of tokens that stand for images and videos: as without the patch, and with the same errors."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any, Optional

import pytest
import torch
import transformers
from comparing_models import RELEASE

import patchcore as pc
from transformers_npu.processing.placeholders import PLACEHOLDERS

if RELEASE < (4, 57):
    pytest.skip("no qwen3_vl", allow_module_level=True)
Qwen3VLModel = importlib.import_module("transformers.models.qwen3_vl.modeling_qwen3_vl").Qwen3VLModel
IMAGE, VIDEO, WIDTH = 5, 6, 4
TOKENS = torch.tensor([[1, IMAGE, IMAGE, 2], [VIDEO, 3, IMAGE, VIDEO]])
EMBEDDING = torch.nn.Embedding(8, WIDTH)
HAS_COPY = transformers.__version__.startswith("4.57.")


def masks(images: Optional[int], videos: Optional[int], device: str, by_tokens: bool) -> Any:
    embedding = EMBEDDING.to(device)
    tokens = TOKENS.to(device)
    config = SimpleNamespace(image_token_id=IMAGE, video_token_id=VIDEO)
    model = SimpleNamespace(config=config, get_input_embeddings=lambda: embedding)
    features = [None if count is None else torch.zeros(count, WIDTH, device=device) for count in (images, videos)]
    try:
        return Qwen3VLModel.get_placeholder_mask(
            model,
            tokens if by_tokens else None,
            embedding(tokens),
            image_features=features[0],
            video_features=features[1],
        )
    except ValueError as error:
        return str(error)


@pytest.mark.skipif(not HAS_COPY, reason="the patch is for transformers 4.57")
@pytest.mark.parametrize("device", ["cpu", "npu"])
@pytest.mark.parametrize("by_tokens", [True, False])
@pytest.mark.parametrize("counts", [(3, 2), (3, None), (None, 2), (None, None), (2, 2), (3, 5)])
def test_the_same_masks_and_errors(counts: tuple[Optional[int], Optional[int]], device: str, by_tokens: bool) -> None:
    expected = masks(*counts, device, by_tokens)
    with pc.Patcher([PLACEHOLDERS], count=True) as patcher:
        found = masks(*counts, device, by_tokens)
    assert patcher.report()["transformers.qwen3_vl_placeholders"].calls == 1
    assert isinstance(expected, str) == (counts in ((2, 2), (3, 5)))
    if isinstance(expected, str):
        assert found == expected
    else:
        assert all(torch.equal(one, other) for one, other in zip(found, expected))


@pytest.mark.skipif(HAS_COPY, reason="transformers 4.57 has the copy")
def test_another_transformers_is_left_alone() -> None:
    with pc.Patcher([PLACEHOLDERS]) as patcher:
        assert patcher.report()["transformers.qwen3_vl_placeholders"].status == "skipped"
