"""The setting ``model_config``: what a plan says of a model's sizes, from the source of its configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

import patchcore as pc
from mmcv_npu import model_sizes
from mmcv_npu.plugin import PATCHES

PATCH_OF = {patch.name: patch for patch in PATCHES}


def warnings(name: str, config: Path) -> list[str]:
    """Return what the plan says of a patch, without the folder."""
    (patch,) = model_sizes.with_model((PATCH_OF[name],), str(config))
    remarks = list(model_sizes.remarks_on(patch))
    assert all(remark.level == 30 and not remark.finding for remark in remarks)
    return [remark.text.replace(f"{config.parent}/", "") for remark in remarks]


def write(folder: Path, text: str, name: str = "model.py") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_groups_of_offsets_and_channels_are_named_with_their_line(tmp_path: Path) -> None:
    config = write(
        tmp_path,
        "backbone = dict(\n    type='ResNet',\n    dcn=dict(type='DCNv2', deform_groups=4))\n"
        "head = {'type': 'mmcv.DeformConv2dPack', 'in_channels': 48, 'deform_groups': 1}\n",
    )
    assert warnings("mmcv.modulated_deform_conv", config) == [
        "model.py:3: DCNv2 with deform_groups=4 does not run on the kernel, which takes one deformable group"
    ]
    assert warnings("mmcv.deform_conv", config) == [
        "model.py:4: DeformConv2dPack with in_channels=48 does not run on the kernel, which takes multiples of 64"
    ]


@pytest.mark.parametrize(
    ("attention", "said"),
    [
        ("type='MultiScaleDeformableAttention', num_heads=16", "num_heads=16 does not run on the kernel"),
        ("type='MSDeformAttn', embed_dims=_dim_, num_heads=2", "10 channels of a head (embed_dims=20, num_heads=2)"),
        ("embed_dims=256, num_heads=8, num_levels=5, num_points=16", "more than 64 levels x points"),
    ],
    ids=["heads", "channels", "points"],
)
def test_attention_outside_of_the_limits_is_named(attention: str, said: str, tmp_path: Path) -> None:
    config = write(tmp_path, f"_dim_ = 20\nmodel = dict(layer=dict(cross_attn_cfg=dict({attention})))\n")
    (text,) = warnings("mmcv.multi_scale_deformable_attention", config)
    assert said in text


@pytest.mark.parametrize(
    "attention",
    [
        "type='MultiScaleDeformableAttention', embed_dims=256, num_levels=4",
        "type='MultiheadAttention', embed_dims=256, num_heads=16",
        "type='MultiScaleDeformableAttention', embed_dims=width(), num_heads=8",
    ],
    ids=["within", "another", "unknown"],
)
def test_nothing_is_said_of_what_fits_or_is_not_known(attention: str, tmp_path: Path) -> None:
    config = write(tmp_path, f"model = dict(attn_cfg=dict({attention}))\n")
    assert warnings("mmcv.multi_scale_deformable_attention", config) == []


def test_bases_are_read_too_and_each_once(tmp_path: Path) -> None:
    write(tmp_path, "_base_ = './model.py'\nheads = 12\n", "base.py")
    config = write(
        tmp_path,
        "_base_ = ['./base.py', 'mmdet::other.py']\n"
        "model = dict(attention=dict(type='MultiScaleDeformableAttention', num_heads=heads))\n",
    )
    (text,) = warnings("mmcv.multi_scale_deformable_attention", config)
    assert text.startswith("model.py:2: ")


def test_a_file_that_cannot_be_read_is_a_warning(tmp_path: Path) -> None:
    (text,) = warnings("mmcv.deform_conv", tmp_path / "missing.py")
    assert text.startswith("model_config = ")
    assert "No such file" in text


def test_the_setting_reaches_the_plan(tmp_path: Path) -> None:
    config = write(tmp_path, "neck = dict(dcn=dict(type='DCN', deform_groups=2))\n")
    settings = pc.Settings.load(environ={"PATCHCORE_MODEL_CONFIG": str(config)}, start=tmp_path)
    patcher = pc.Patcher.discover(settings=settings)
    (entry,) = (entry for entry in patcher.plan() if entry.patch.name == "mmcv.deform_conv")
    texts = [remark.text for remark in patcher.plugins.remarks(entry, thorough=True)]
    assert any("deform_groups=2" in text for text in texts)
    assert not any("deform_groups=2" in remark.text for remark in patcher.plugins.remarks(entry, thorough=False))
