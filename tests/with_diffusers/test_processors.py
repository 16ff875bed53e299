"""Flux and Chroma of diffusers 0.35 can be made where torch_npu is installed, with the patch only."""

from __future__ import annotations

import diffusers
import pytest
from diffusion_models import ARCHITECTURES, RELEASE
from test_diffusion_models import TOLERANCES, difference, outcome

import patchcore as pc
from diffusers_npu.plugin import PATCHES
from diffusers_npu.processors import FLUX_PROCESSOR

(FLUX,) = (architecture for architecture in ARCHITECTURES if architecture.kind == "FluxTransformer2DModel")


@pytest.mark.skipif(RELEASE >= (0, 36), reason="of diffusers 0.35")
def test_flux_can_be_made(request: pytest.FixtureRequest) -> None:
    with pytest.raises(ValueError, match="npu_processor"):
        diffusers.FluxTransformer2DModel(**FLUX.config)
    (dtype, *_) = TOLERANCES
    with pc.Patcher(PATCHES):
        found = outcome(FLUX, dtype)
    request.getfixturevalue("by_formula")
    assert difference(found, outcome(FLUX, dtype))[0] <= TOLERANCES[dtype]


@pytest.mark.skipif(RELEASE < (0, 36), reason="of later releases")
def test_the_plan_skips_releases_that_need_no_patch() -> None:
    entry = pc.Patcher([FLUX_PROCESSOR]).plan()[FLUX_PROCESSOR.name]
    assert entry.verdict == "skipped"
    assert "requires diffusers>=0.35,<0.36" in entry.reason
