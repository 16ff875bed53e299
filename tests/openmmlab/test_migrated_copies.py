"""``patchcore migrate`` makes nothing worse: what runs on the CPU runs on the NPU after it, with the same losses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import running

pytest.importorskip("libcst")

#: A model's own copy of deformable attention, in the form that BEVFormer, VAD, UniAD and MapTR have it.
FUNCTION = """\
import torch
from mmcv.utils import ext_loader
from torch.autograd.function import Function, once_differentiable
from torch.cuda.amp import custom_bwd, custom_fwd

ext_module = ext_loader.load_ext('_ext', ['ms_deform_attn_backward', 'ms_deform_attn_forward'])


class MultiScaleDeformableAttnFunction_fp32(Function):
    @staticmethod
    @custom_fwd(cast_inputs=torch.float32)
    def forward(ctx, value, shapes, start_index, locations, weights, im2col_step):
        ctx.im2col_step = im2col_step
        output = ext_module.ms_deform_attn_forward(
            value, shapes, start_index, locations, weights, im2col_step=ctx.im2col_step)
        ctx.save_for_backward(value, shapes, start_index, locations, weights)
        return output

    @staticmethod
    @once_differentiable
    @custom_bwd
    def backward(ctx, grad_output):
        value, shapes, start_index, locations, weights = ctx.saved_tensors
        grads = torch.zeros_like(value), torch.zeros_like(locations), torch.zeros_like(weights)
        ext_module.ms_deform_attn_backward(
            value, shapes, start_index, locations, weights, grad_output.contiguous(), *grads,
            im2col_step=ctx.im2col_step)
        return grads[0], None, None, grads[1], grads[2], None
"""
ATTENTION = """\
import torch
from mmcv.ops.multi_scale_deform_attn import multi_scale_deformable_attn_pytorch
from torch import nn

from function import MultiScaleDeformableAttnFunction_fp32


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.value, self.offsets, self.weights = nn.Linear(16, 16), nn.Linear(16, 2 * 2 * 2), nn.Linear(16, 2 * 2)

    def forward(self, query, shapes, start_index):
        batch, queries, _ = query.shape
        value = self.value(query).view(batch, queries, 2, 8)
        weights = self.weights(query).view(batch, queries, 2, 1, 2).softmax(-1)
        locations = self.offsets(query).view(batch, queries, 2, 1, 2, 2).sigmoid()
        if torch.cuda.is_available() and value.is_cuda:
            MultiScaleDeformableAttnFunction = MultiScaleDeformableAttnFunction_fp32
            output = MultiScaleDeformableAttnFunction.apply(value, shapes, start_index, locations, weights, 64)
        else:
            output = multi_scale_deformable_attn_pytorch(value, shapes, locations, weights)
        return output
"""
TRAIN = """\
import json

import torch

from attention import Attention

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = Attention().to(device)
query, target = torch.randn(2, 12, 16).to(device), torch.randn(2, 12, 16).to(device)
shapes, start_index = torch.tensor([[3, 4]]).to(device), torch.tensor([0]).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
losses = []
for step in range(4):
    loss = (model(query, shapes, start_index) - target).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(json.dumps({"device": next(model.parameters()).device.type, "losses": losses}))
"""


def test_a_models_own_attention_trains_on_the_npu_as_it_did_on_the_cpu(
    tmp_path: Path, run_python: Callable[..., str]
) -> None:
    project, migrated = tmp_path / "project", tmp_path / "migrated"
    project.mkdir()
    for name, source in {"function.py": FUNCTION, "attention.py": ATTENTION, "train.py": TRAIN}.items():
        (project / name).write_text(source, encoding="utf-8")
    run = ("-m", "patchcore", "run", "-q", "--disable", "transfer_to_npu")
    before = json.loads(run_python(*run, project / "train.py").splitlines()[-1])
    printed = run_python("-m", "patchcore", "migrate", project, "--output", migrated, "--format", "json")
    after = json.loads(run_python(*run, running.OPTION, migrated / "train.py").splitlines()[-1])
    assert (before["device"], after["device"]) == ("cpu", "npu")
    assert len(set(before["losses"])) == 4  # it trains
    assert after["losses"] == pytest.approx(before["losses"], rel=1e-5)
    kept = [row for row in json.loads(printed)["findings"] if row["rule"] == "kernel.branch"]
    assert [Path(row["file"]).name for row in kept] == ["attention.py"]
