"""Families: each kernel computes what the code of its family computes, forward and backward, in each type."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable

import pytest
import torch
import transformers
from comparing_models import MAJOR, RELEASE

import patchcore as pc
from patchcore.builtin.verify.verify import framework_of, verify
from transformers_npu.families.patches import PATCHES
from transformers_npu.families.patching import families, rms_norm_changes, rotary_changes
from transformers_npu.families.remote_code import REMOTE_CODE

WIDTH = 16
# transformers 5 and 4 have these formulas only: verify skips them with the other one
ONLY_IN = {
    5: {
        "deepseek_v4:DeepseekV4UnweightedRMSNorm.forward",
        "olmo_hybrid:OlmoHybridRMSNormGated.forward",
        "bailing_hybrid:BailingHybridRMSNormGated.forward",
        "axk1:apply_rotary_pos_emb_interleave",
        "esm:apply_rotary_pos_emb",
        "glm4v:apply_rotary_pos_emb",
        "deepseek_v4:eager_attention_forward",
        "granite_swa:eager_attention_forward",
        "openai_privacy_filter:eager_attention_forward",
    },
    4: {
        "qwen3_next:Qwen3NextRMSNormGated.forward",
        "bamba:BambaRMSNormGated.forward",
        "deepseek_v3:apply_rotary_pos_emb_interleave",
        "dinov2:Dinov2SwiGLUFFN.forward",
        "gpt_oss:eager_attention_forward",
    },
}


def is_absent(check: str) -> bool:
    """Return whether this release has no model, or no function, of the name of a check."""
    model, _, path = check.partition(":")
    name = f"transformers.models.{model}.modeling_{model}"
    if importlib.util.find_spec(f"transformers.models.{model}") is None or importlib.util.find_spec(name) is None:
        return True
    try:
        return not hasattr(importlib.import_module(name), path.partition(".")[0])
    except ImportError:  # of another library
        return False


def verified(patch: pc.Patch, **how: Any) -> list[Any]:
    """Verify a patch on the NPU, but for the formulas that only the other line of transformers has.

    gemma3n, the only model of transformers 4 with its formula, imports timm, which imports torchvision.
    """
    framework = framework_of(pc.Patcher.discover().plugins)
    results = verify([patch], device="npu", emulated=True, framework=framework, **how)
    skipped = {result.check: result.message for result in results if result.status == "skipped"}
    needing = {check for check, reason in skipped.items() if "No module named 'torchvision'" in reason}
    assert needing <= {"diffusion_gemma:apply_rotary_pos_emb"}
    checks = {check.name for check in patch.checks}
    if RELEASE >= (4, 57):
        assert skipped.keys() - needing == checks & ONLY_IN[4 if MAJOR >= 5 else 5]
    else:
        assert skipped.keys() - needing <= checks & ONLY_IN[4 if MAJOR >= 5 else 5] | set(filter(is_absent, checks))
    if skipped.keys() == checks:
        pytest.skip("no model of this release has one of the formulas")
    return [result for result in results if result.check not in skipped]


def test_each_formula_has_a_check() -> None:
    assert sorted(check.name for patch in PATCHES for check in patch.checks) == sorted(
        family.examples[0] for family in families().values()
    )


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.name)
def test_checks_agree_on_the_real_adapter_and_each_call_reaches_the_kernel(patch: pc.Patch) -> None:
    results = verified(patch, rounds=5, sizes=[pc.Size.SMALL, pc.Size.MEDIUM])
    assert {result.dtype for result in results} == {"float32", "float16", "bfloat16"}
    assert [(r.check, r.dtype, r.message) for r in results if r.status != "agrees"] == []
    missed = [(r.check, r.dtype, case.seed) for r in results for case in r.measurements if not case.reached]
    assert missed == []


def wrong_forward(value: torch.Tensor) -> torch.Tensor:
    return value * 1.001


def wrong_gradient(value: torch.Tensor) -> torch.Tensor:
    return value + (value - value.detach()) * 0.001


@pytest.mark.parametrize("wrong", [wrong_forward, wrong_gradient], ids=lambda wrong: wrong.__name__)
@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.name)
def test_each_check_fails_if_the_kernel_is_wrong(patch: pc.Patch, wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch_npu

    def spoiled(kernel: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            found = kernel(*arguments, **named)
            return (wrong(found[0]), *found[1:]) if isinstance(found, (tuple, list)) else wrong(found)

        return call

    for name in ("npu_rms_norm", "npu_rotary_mul", "npu_swiglu", "npu_geglu", "npu_fusion_attention"):
        monkeypatch.setattr(torch_npu, name, spoiled(getattr(torch_npu, name)))
    results = verified(patch, rounds=2, sizes=[pc.Size.SMALL], dtypes=["float32"])
    assert [result.check for result in results if result.status != "differs"] == []


def test_calls_with_tensors_of_the_cpu_go_to_the_original() -> None:
    x, cos = torch.randn(1, 2, 5, WIDTH), torch.randn(1, 5, WIDTH)
    weight = torch.nn.Parameter(torch.ones(WIDTH))
    same = torch.nn.Identity()
    arguments = {"x": x, "q": x, "k": x, "cos": cos, "sin": cos, "dim": 1, "gate": x, "weight": weight, "eps": 1e-6}
    arguments.update(projection=same, down=same, dropout=same, activation=torch.nn.SiLU())
    layer = SimpleNamespace(sinks=torch.ones(2), num_key_value_groups=1, training=True)
    arguments.update(module=layer, query=x, key=x, value=x, mask=None, scaling=0.5, dropout=0.0)
    for family in families().values():
        module, _, name = family.kernel.partition(":")
        takes = getattr(importlib.import_module(f"transformers_npu.kernels.{module}"), f"takes_{name}")
        assert not takes(*(arguments[argument] for argument in family.arguments)), family.kernel


def test_models_are_patched_as_they_are_imported_and_restored() -> None:
    sys.modules.pop("transformers.models.qwen2.modeling_qwen2", None)
    with pc.Patcher(PATCHES) as patcher:
        module = importlib.import_module("transformers.models.qwen2.modeling_qwen2")
        targets = [change.target for record in patcher.report().patches for change in record.changes]
        assert f"{module.__name__}:Qwen2RMSNorm.forward" in targets
        assert f"{module.__name__}:apply_rotary_pos_emb" in targets
        patched = module.apply_rotary_pos_emb.__code__
        assert {record.status for record in patcher.report().patches} == {"applied"}
    assert module.apply_rotary_pos_emb.__code__ is not patched


def test_the_same_name_with_another_formula_is_left_alone() -> None:
    """nanochat's rotary has the signs of the sines the other way round, under the name that all models have."""
    if importlib.util.find_spec("transformers.models.nanochat") is None:
        pytest.skip("transformers before 4.57 has no nanochat")
    module = importlib.import_module("transformers.models.nanochat.modeling_nanochat")
    assert rotary_changes(module) == []


def test_a_subclass_with_another_norm_of_its_own_is_left_alone() -> None:
    module = importlib.import_module("transformers.models.gemma.modeling_gemma")
    (change,) = rms_norm_changes(module)

    class Other(module.GemmaRMSNorm):
        def _norm(self, x: Any) -> Any:
            return x

    x = torch.randn(2, 8).npu()
    assert change.when_call is not None
    assert change.when_call(module.GemmaRMSNorm(8).npu(), x)
    assert not change.when_call(Other(8).npu(), x)


def second_derivatives(example: str, inputs: Callable[[Any], list[Any]], device: str) -> list[torch.Tensor]:
    """Return the gradients of the squares of the gradients of a call; of each tensor that it gets."""
    model, _, name = example.partition(":")
    module = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
    call, *tensors = inputs(getattr(module, name))
    tensors = [tensor.detach().to(device).requires_grad_() for tensor in tensors]
    result = call(*tensors)
    total = sum(one.pow(3).sum() for one in (result if isinstance(result, tuple) else (result,)))
    first = torch.autograd.grad(total, tensors, create_graph=True)
    second = torch.autograd.grad(sum(one.pow(2).sum() for one in first), tensors)
    return [one.cpu() for one in second]


def norm_inputs(klass: Any) -> list[Any]:
    def call(x: torch.Tensor, weight: torch.Tensor) -> Any:
        module = klass(8).to(x.device)
        del module.weight
        module.weight = weight
        return module(x)

    return [call, randoms(2, 3, 8), randoms(8)]


def rotary_inputs(function: Any) -> list[Any]:
    cos, sin = randoms(1, 3, 8).cos(), randoms(1, 3, 8).sin()
    return [lambda q, k: function(q, k, cos.to(q.device), sin.to(q.device)), randoms(1, 2, 3, 8), randoms(1, 2, 3, 8)]


def mlp_inputs(klass: Any) -> list[Any]:
    config = transformers.DiaEncoderConfig(hidden_size=8, intermediate_size=6, hidden_act="silu")
    torch.manual_seed(0)
    module = klass(config)
    return [lambda x: copy.deepcopy(module).to(x.device)(x), randoms(2, 3, 8)]


def randoms(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize(
    ("patch", "example", "inputs"),
    [
        ("transformers.rms_norm", "llama:LlamaRMSNorm", norm_inputs),
        ("transformers.rotary", "llama:apply_rotary_pos_emb", rotary_inputs),
        pytest.param(
            *("transformers.gated_mlp", "dia:DiaMLP", mlp_inputs),
            marks=pytest.mark.skipif(RELEASE < (4, 53), reason="no dia"),
        ),
    ],
)
def test_second_derivatives_are_refused_and_right_without_the_patch(patch: str, example: str, inputs: Any) -> None:
    expected = second_derivatives(example, inputs, "cpu")
    with pc.Patcher(PATCHES), pytest.raises(RuntimeError, match=f"create_graph=True.*PATCHCORE_DISABLE={patch}"):
        second_derivatives(example, inputs, "npu")
    with pc.Patcher(PATCHES, disable=[patch]):
        got = second_derivatives(example, inputs, "npu")
    for one, right in zip(got, expected):
        assert ((one - right).abs().max() / right.abs().max()).item() < 1e-4


OWN_MODEL = """
import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel


class OwnConfig(PretrainedConfig):
    model_type = "own_model"


class OwnScale(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.tiny = eps

    def forward(self, states):
        kind = states.dtype
        states = states.to(torch.float32)
        spread = states.pow(2).mean(-1, keepdim=True)
        return self.gain * (states * torch.rsqrt(spread + self.tiny)).to(kind)


class OwnModel(PreTrainedModel):
    config_class = OwnConfig

    def __init__(self, config):
        super().__init__(config)
        self.scale = OwnScale(8)
        self.post_init()

    def forward(self, states):
        return self.scale(states)
"""


def test_a_model_of_remote_code_is_patched_by_its_formula(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from safetensors.torch import save_file

    folder = tmp_path / "own_model"
    folder.mkdir()
    (folder / "modeling_own.py").write_text(OWN_MODEL, encoding="utf-8")
    classes = {"AutoConfig": "modeling_own.OwnConfig", "AutoModel": "modeling_own.OwnModel"}
    config = {"model_type": "own_model", "auto_map": classes, "architectures": ["OwnModel"]}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    gain = 1 + torch.arange(8.0) / 8
    save_file({"scale.gain": gain}, folder / "model.safetensors", metadata={"format": "pt"})
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    x = randoms(2, 3, 8)
    with pc.Patcher([REMOTE_CODE, *PATCHES], count=True) as patcher:
        model = transformers.AutoModel.from_pretrained(str(folder), trust_remote_code=True).npu()
        assert type(model).__module__.startswith("transformers_modules.")
        got = model(x.npu()).detach().cpu()
        record = patcher.report()["transformers.rms_norm"]  # transformers 5 has a hash in the name of the module
        (change,) = [change for change in record.changes if change.target.endswith(":OwnScale.forward")]
        assert (change.status, change.replaced) == ("applied", 1)
    assert torch.allclose(got, model.cpu()(x).detach(), atol=1e-5)
