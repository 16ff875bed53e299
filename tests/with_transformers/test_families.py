"""Families: each kernel computes what the code of its family computes, forward and backward, in each type."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import sys
from typing import Any

import pytest
import torch
from comparing_models import TOLERANCES, close

import patchcore as pc
from patchcore.cli import main
from transformers_npu.families.patches import PATCHES
from transformers_npu.families.patching import (
    Family,
    families,
    gated_mlp_changes,
    rms_norm_changes,
    rotary_changes,
)
from transformers_npu.families.reading import Item, read_items

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
WIDTH = 16
CHANGES = {"norms": rms_norm_changes, "rotary": rotary_changes, "mlps": gated_mlp_changes}


def module_of(example: str) -> Any:
    model = example.partition(":")[0]
    name = f"transformers.models.{model}.modeling_{model}"
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


def example_of(family: Family) -> tuple[Any, pc.Replace]:
    """Return the module of an example of the family in this transformers, and the change for it."""
    for example in family.examples:
        module = (
            module_of(example) if importlib.util.find_spec("transformers.models." + example.split(":")[0]) else None
        )
        if module is None:
            continue
        for change in CHANGES[family.kernel.partition(":")[0]](module):
            formula = item_of(change, module).formula
            if formula is not None and formula.text == family.formula:
                return module, change
    return pytest.skip(f"no example in this transformers: {', '.join(family.examples)}")


def item_of(change: pc.Replace, module: Any) -> Item:
    """Return the function that a change is for, as it was read."""
    name = ".".join(map(str, change.target.path))
    with open(module.__file__, "rb") as file:
        (item,) = [item for item in read_items(file.read()) if item.name == name]
    return item


def randoms(*shape: int) -> torch.Tensor:
    return torch.randn(shape, requires_grad=True)


class Inputs:
    """Random arguments of a function of a family, by what they are for the kernel."""

    def __init__(self, family: Family) -> None:
        torch.manual_seed(0)
        kernel = family.kernel.partition(":")[2]
        heads = 3
        size = WIDTH // 2 if "partial" in kernel else WIDTH
        vision = kernel.startswith("vision")
        shape = (5, heads, WIDTH) if vision else (2, heads, 5, WIDTH)
        angles = torch.rand(1, 5, size)
        cos, sin = angles.cos(), angles.sin()
        self.values: dict[str, Any] = {
            "x": randoms(*shape) if family.kernel.startswith("rotary") else randoms(2, 5, WIDTH),
            "q": randoms(*shape),
            "k": randoms(*shape),
            "cos": cos[0] if vision else cos,
            "sin": sin[0] if vision else sin,
            "dim": 1,
            "gate": randoms(2, 5, WIDTH),
            "weight": torch.nn.Parameter(1 + torch.randn(WIDTH) / 4),
            "eps": 1e-6,
            "projection": torch.nn.Linear(WIDTH, 2 * WIDTH),
            "down": torch.nn.Linear(WIDTH, WIDTH),
            "dropout": torch.nn.Dropout(0.0),
            "activation": torch.nn.SiLU() if family.kernel.startswith("mlps") else "silu",
        }

    def on(self, device: str, dtype: torch.dtype) -> dict[str, Any]:
        made = {}
        for name, value in self.values.items():
            if isinstance(value, torch.Tensor):
                value = value.detach().to(dtype).to(device).requires_grad_(name not in ("cos", "sin"))
                value = torch.nn.Parameter(value) if name == "weight" else value
            elif isinstance(value, torch.nn.Module):
                value = copy.deepcopy(value).to(dtype).to(device)
            made[name] = value
        return made


def computed(function: Any, family: Family, change: pc.Replace, module: Any, given: dict[str, Any]) -> list[Any]:
    """Return the results of a call, and the gradients of all tensors that went in."""
    arguments, keywords = call_of(family, change, module, given)
    found = function(*arguments, **keywords)
    results = list(found) if isinstance(found, tuple) else [found]
    weights = [torch.arange(1, r.numel() + 1).sin().view_as(r).to(r) for r in results]
    sum((r * w).sum() for r, w in zip(results, weights)).backward()
    leaves = [v for v in given.values() if isinstance(v, torch.Tensor) and v.grad is not None]
    for each in given.values():
        if isinstance(each, torch.nn.Module):
            leaves += [p for p in each.parameters() if p.grad is not None]
    return [*results, *(leaf.grad for leaf in leaves)]


def call_of(family: Family, change: pc.Replace, module: Any, given: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    item = item_of(change, module)
    name = item.name
    assert item.formula is not None
    keywords, attributes = {}, {}
    for argument, place in family.arguments.items():
        if place in item.formula.names:
            (attributes if place[0] == "S" else keywords)[item.formula.names[place]] = given[argument]
    if "." not in name:
        return [], keywords
    klass = getattr(module, name.partition(".")[0])
    made = klass.__new__(klass)
    torch.nn.Module.__init__(made)
    for key, value in attributes.items():
        setattr(made, key, value)
    return [made], keywords


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("family", families().values(), ids=lambda f: f"{f.kernel}-{f.examples[0]}")
def test_the_kernel_computes_the_same(family: Family, dtype: torch.dtype) -> None:
    module, change = example_of(family)
    original: Any = module
    for name in change.target.path:
        original = getattr(original, name)
    inputs = Inputs(family)
    expected = computed(original, family, change, module, inputs.on("cpu", torch.float32))
    same_type = computed(original, family, change, module, inputs.on("npu", dtype))
    given = inputs.on("npu", dtype)
    arguments, keywords = call_of(family, change, module, given)
    assert change.when_call is not None
    assert change.when_call(*arguments, **keywords)
    got = computed(change.replacement, family, change, module, given)
    assert [(r.shape, r.dtype, r.device) for r in got] == [(r.shape, r.dtype, r.device) for r in same_type]
    for ours, exact in zip(got, expected):
        close(ours.detach().float().cpu(), exact.detach(), TOLERANCES[dtype])
    on_cpu, named = call_of(family, change, module, inputs.on("cpu", dtype))
    assert not change.when_call(*on_cpu, **named)


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


def test_the_roles_of_a_model_are_listed(capsys) -> None:
    assert main(["roles", "llama"]) == 0
    rows = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    found = {row[1].strip(): " ".join(row[2:]) for row in rows if len(row) > 2}
    assert "patched" in found["LlamaRMSNorm.forward"]
    assert "patched" in found["apply_rotary_pos_emb"]
    assert "left alone" in found["LlamaMLP.forward"]
    assert main(["roles", "lama"]) == 2
    assert "did you mean 'llama'?" in capsys.readouterr().err
