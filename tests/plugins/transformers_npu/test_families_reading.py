"""Families: what is one formula and what is not, on small sources; neither torch nor transformers is needed."""

from __future__ import annotations

import textwrap

import pytest

pytest.importorskip("transformers_npu")

from transformers_npu.families.formulas import Formula
from transformers_npu.families.patching import families
from transformers_npu.families.reading import may_have_roles, read_items

NORM = """
    import torch
    from torch import nn

    class LlamaRMSNorm(nn.Module):
        def forward(self, hidden_states):
            input_dtype = hidden_states.dtype
            hidden_states = hidden_states.to(torch.float32)
            variance = hidden_states.pow(2).mean(-1, keepdim=True)
            hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
            return self.weight * hidden_states.to(input_dtype)
"""

OTHER_WORDS = """
    import torch as th

    class Whatever:
        def forward(self, x):
            y = x.float()
            return (y * (self.tiny + y.square().mean(dim=-1, keepdim=True)).rsqrt()).to(dtype=x.dtype) * self.gamma
"""


def formulas(source: str) -> dict[str, Formula | None]:
    return {item.name: item.formula for item in read_items(textwrap.dedent(source).encode())}


def formula(source: str) -> Formula:
    (found,) = formulas(source).values()
    assert found is not None
    return found


def test_a_norm_is_known_under_any_name_and_spelling() -> None:
    first, second = formula(NORM), formula(OTHER_WORDS)
    assert first.text == second.text
    assert families()[first.text].kernel == "norms:rms_norm"
    assert dict(first.names) == {"S0": "weight", "P0": "hidden_states", "S1": "variance_epsilon"}
    assert dict(second.names) == {"S0": "gamma", "P0": "x", "S1": "tiny"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("mean(-1, keepdim=True)", "mean(-2, keepdim=True)"),
        ("pow(2)", "pow(3)"),
        ("self.weight *", "(1 + self.weight) *"),
        ("hidden_states.to(input_dtype)", "hidden_states"),
        ("variance + self", "variance - self"),
        ("torch.rsqrt(variance", "2 * torch.rsqrt(variance"),
        ("torch.float32", "torch.float64"),
    ],
)
def test_another_formula_under_the_same_name_is_not_known(old: str, new: str) -> None:
    changed = NORM.replace(old, new)
    assert changed != NORM
    assert formula(changed).text not in families()


@pytest.mark.parametrize(
    "statement",
    [
        "hidden_states += 1",
        "hidden_states.mul_(2)",
        "for _ in range(2): hidden_states = hidden_states * 2",
        "print(hidden_states)",
        "raise ValueError",
    ],
)
def test_code_that_does_more_than_compute_has_no_formula(statement: str) -> None:
    changed = NORM.replace("variance = ", f"{statement}\n            variance = ", 1)
    assert formulas(changed) == {"LlamaRMSNorm.forward": None}


ROTARY = """
    import torch

    def turned(x):
        x1 = x[..., : x.shape[-1] // 2]
        x2 = x[..., x.shape[-1] // 2 :]
        return torch.cat((-x2, x1), dim=-1)

    def apply_rotary_pos_emb(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
        cos = cos.unsqueeze(unsqueeze_dim)
        sin = sin.unsqueeze(unsqueeze_dim)
        q_embed = (q * cos) + (turned(q) * sin)
        k_embed = (k * cos) + (turned(k) * sin)
        return q_embed, k_embed
"""


def test_a_rotary_embedding_includes_the_function_that_turns() -> None:
    found = formulas(ROTARY)["apply_rotary_pos_emb"]
    assert found is not None
    assert families()[found.text].kernel == "rotary:half"
    for old, new in (("(-x2, x1)", "(x2, -x1)"), ("turned(k) * sin", "turned(k) * cos"), ("q * cos", "k * cos")):
        other = formulas(ROTARY.replace(old, new))["apply_rotary_pos_emb"]
        assert other is not None
        assert other.text not in families()


def test_own_methods_are_part_of_the_formula() -> None:
    source = """
        import torch

        class Norm:
            def _norm(self, x):
                return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

            def forward(self, x):
                output = self._norm(x.float())
                return (output * (1.0 + self.weight.float())).type_as(x)
    """
    found = formula(source)
    assert families()[found.text].kernel == "norms:rms_norm_plus_one"
    assert found.methods == {"_norm"}


def test_decorators_and_names_that_are_defined_twice_are_left_out() -> None:
    assert formulas(NORM.replace("    class Llama", "    @something\n    class Llama")) == {}
    assert formulas(NORM + NORM) == {}
    assert list(formulas(NORM.replace("    class", "    @use_kernel_forward_from_hub('RMSNorm')\n    class")))


def test_a_source_without_roles_is_not_parsed() -> None:
    assert not may_have_roles(b"def forward(self, x): return self.dense(x)")


def test_each_family_names_its_kernel_and_arguments() -> None:
    assert len(families()) > 20
    for family in families().values():
        assert family.examples
        assert family.role
