"""Programs like diffusers' own, unchanged and offline: a training loop and pipelines, with and without the patches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from diffusers import (
    AutoencoderKL,
    DDIMScheduler,
    DDPMPipeline,
    DDPMScheduler,
    DiTPipeline,
    DiTTransformer2DModel,
    UNet2DConditionModel,
    UNet2DModel,
)
from diffusers.optimization import get_scheduler
from diffusers.training_utils import EMAModel
from diffusion_models import AUTOENCODER_KL, DIT, UNET_2D, UNET_2D_CONDITION, present

import patchcore as pc
from diffusers_npu.plugin import PATCHES


def trained() -> list[float]:
    """The losses of a loop like that of ``train_text_to_image.py``."""
    torch.manual_seed(0)
    unet = UNet2DConditionModel(**UNET_2D_CONDITION.config).to("npu").train()
    noises = DDPMScheduler(num_train_timesteps=20)
    optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-2)
    rates = get_scheduler("cosine", optimizer, num_warmup_steps=1, num_training_steps=4)
    average = EMAModel(unet.parameters(), model_cls=UNet2DConditionModel, model_config=unet.config)
    images, texts, there = torch.randn(2, 4, 8, 8).npu(), torch.randn(2, 7, 12).npu(), present(7, 3, length=7).npu()
    losses = []
    for _ in range(4):
        noise, steps = torch.randn(2, 4, 8, 8).npu(), torch.randint(0, 20, (2,)).npu()
        noisy = noises.add_noise(images, noise, steps)
        found = unet(noisy, steps, texts, encoder_attention_mask=there, return_dict=False)[0]
        loss = torch.nn.functional.mse_loss(found.float(), noise.float())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
        optimizer.step()
        rates.step()
        optimizer.zero_grad()
        average.step(unet.parameters())
        losses.append(loss.item())
    return losses


def drawn() -> Any:
    torch.manual_seed(0)
    pipeline = DDPMPipeline(UNet2DModel(**UNET_2D.config), DDPMScheduler(num_train_timesteps=20)).to("npu")
    pipeline.set_progress_bar_config(disable=True)
    return pipeline(num_inference_steps=2, generator=torch.manual_seed(1), output_type="np").images


def drawn_of_classes() -> Any:
    torch.manual_seed(0)
    model = DiTTransformer2DModel(**{**DIT.config, "num_embeds_ada_norm": 1000})  # behind these is "no class"
    vae = AutoencoderKL(**AUTOENCODER_KL.config, latent_channels=4)
    pipeline = DiTPipeline(model, vae, DDIMScheduler(num_train_timesteps=20)).to("npu")
    pipeline.set_progress_bar_config(disable=True)
    generator = torch.manual_seed(1)
    return pipeline([1, 2], num_inference_steps=2, generator=generator, output_type="np").images


@pytest.mark.parametrize("program", [trained, drawn, drawn_of_classes], ids=lambda program: program.__name__)
def test_the_same_numbers(program: Callable[[], Any], by_formula: None) -> None:
    expected = torch.as_tensor(program())
    with pc.Patcher(PATCHES, count=True) as patcher:
        found = torch.as_tensor(program())
    assert patcher.report()["diffusers.attention.attention_processor"].calls
    assert torch.allclose(found, expected, atol=1e-5)
    assert expected.isfinite().all()
