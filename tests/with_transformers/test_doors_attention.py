"""Attention through the interface of transformers: the numbers of eager attention on the CPU, every hit counted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from comparing_models import MAJOR, RELEASE, TOLERANCES, assert_equal, close, hits, padded_batch, step, tiny
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, AttentionInterface

import patchcore as pc
from patchcore.builtin.verify.verify import framework_of, verify
from transformers_npu.doors.attention import fits
from transformers_npu.doors.checks import attention_by_definition
from transformers_npu.doors.patches import FLASH_WINDOWS, FUSION, GROUPED_MM, SDPA

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
MODELS = {
    "groups of heads": tiny("Llama"),
    "a sliding window": tiny("Mistral", sliding_window=4),
    "both kinds of layers": tiny("Gemma3Text", "ForCausalLM", head_dim=8, sliding_window=4)
    if hasattr(transformers, "Gemma3TextForCausalLM")
    else tiny("Qwen3", head_dim=8, sliding_window=4, use_sliding_window=True, max_window_layers=1),
    "one head of keys": tiny("Llama", num_key_value_heads=1),
}
if MAJOR >= 5:  # transformers 4 has classes of its own for the attention of BERT
    MODELS["no causal mask"] = tiny("Bert", "ForMaskedLM", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


HAS_NAMES = RELEASE >= (4, 53)
needs_names = pytest.mark.skipif(not HAS_NAMES, reason="transformers before 4.53 has no names for masks")


@pytest.mark.parametrize("patch", [SDPA, *([FUSION] * HAS_NAMES), FLASH_WINDOWS], ids=lambda patch: patch.name)
def test_checks_agree_on_the_real_adapter(patch: pc.Patch) -> None:
    framework = framework_of(pc.Patcher.discover().plugins)
    results = verify([patch], device="npu", rounds=25, sizes=[pc.Size.SMALL], emulated=True, framework=framework)
    assert len(results) >= 2
    assert [(r.dtype, r.message) for r in results if r.status != "agrees"] == []


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("model", MODELS)
def test_models_that_did_not_ask_have_the_logits_and_gradients_of_eager_attention(
    model: str, dtype: torch.dtype
) -> None:
    expected = step(MODELS[model](attn_implementation="eager"), padded_batch(), "cpu", dtype)
    with pc.Patcher([SDPA], count=True) as patcher:
        got = step(MODELS[model](), padded_batch(), "npu", dtype)
        assert hits(patcher, SDPA.name) == (2, 2)
    assert_equal(got, expected, dtype)


def test_without_padding_the_kernel_has_its_own_causal_mask() -> None:
    batch = {name: value for name, value in padded_batch().items() if name != "attention_mask"}
    expected = step(tiny("Llama")(attn_implementation="eager"), batch, "cpu", torch.float32)
    with pc.Patcher([SDPA], count=True) as patcher:
        got = step(tiny("Llama")(), batch, "npu", torch.float32)
        assert hits(patcher, SDPA.name) == (2, 2)
    assert_equal(got, expected, torch.float32)


@pytest.mark.skipif(RELEASE < (4, 53), reason="sequences see each other, with and without the patch")
def test_packed_sequences_do_not_see_each_other() -> None:
    ids = torch.randint(0, 64, (1, 10), generator=torch.Generator().manual_seed(2))
    batch = {"input_ids": ids, "position_ids": torch.tensor([[0, 1, 2, 3, 0, 1, 2, 0, 1, 2]]), "labels": ids}
    alone = [
        step(tiny("Llama")(attn_implementation="eager"), {"input_ids": part, "labels": part}, "cpu", torch.float32)
        for part in ids.split([4, 3, 3], 1)
    ]
    with pc.Patcher([SDPA], count=True) as patcher:
        got = step(tiny("Llama", use_cache=False)(), batch, "npu", torch.float32)
        assert hits(patcher, SDPA.name) == (2, 2)
    close(got.logits, torch.cat([result.logits for result in alone], 1), TOLERANCES[torch.float32])


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_generates_the_tokens_of_the_cpu(cache: str) -> None:
    batch = {name: value for name, value in padded_batch().items() if name != "labels"}
    options: dict[str, Any] = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    if cache == "static":
        options.update(cache_implementation="static", disable_compile=True)
    expected = tiny("Llama")(attn_implementation="eager").eval().generate(**batch, **options)
    with pc.Patcher([SDPA], count=True) as patcher:
        on_npu = {name: value.to("npu") for name, value in batch.items()}
        got = tiny("Llama")().eval().to("npu").generate(**on_npu, **options)
        calls, replaced = hits(patcher, SDPA.name)
        assert calls == replaced == 12
    assert got.cpu().tolist() == expected.tolist()


@needs_names
def test_name_of_its_own_serves_who_asks_and_nobody_else() -> None:
    expected = step(
        tiny("Mistral", sliding_window=4)(attn_implementation="eager"), padded_batch(), "cpu", torch.float32
    )
    with pc.Patcher([FUSION], count=True):
        got = step(
            tiny("Mistral", sliding_window=4)(attn_implementation="npu_fusion"), padded_batch(), "npu", torch.float32
        )
        assert tiny("Llama")().config._attn_implementation == "sdpa"
    assert_equal(got, expected, torch.float32)
    assert "npu_fusion" not in ALL_ATTENTION_FUNCTIONS.valid_keys()


@needs_names
def test_name_of_its_own_works_where_there_is_no_npu_too() -> None:
    expected = step(tiny("Llama")(attn_implementation="sdpa"), padded_batch(), "cpu", torch.float32)
    with pc.Patcher([FUSION]):
        got = step(tiny("Llama")(attn_implementation="npu_fusion"), padded_batch(), "cpu", torch.float32)
    assert torch.equal(got.logits, expected.logits)


@needs_names
def test_name_of_its_own_refuses_sinks() -> None:
    q = torch.randn(1, 2, 3, 8, device="npu")
    with pc.Patcher([FUSION]), pytest.raises(ValueError, match="attention sinks"):
        ALL_ATTENTION_FUNCTIONS["npu_fusion"](SimpleNamespace(), q, q, q, None, s_aux=torch.zeros(2))


def test_revert_leaves_the_tables_as_they_were() -> None:
    before = dict(AttentionInterface._global_mapping)
    with pc.Patcher([SDPA, FUSION]):
        assert AttentionInterface._global_mapping["sdpa"] is not before["sdpa"]
    after = AttentionInterface._global_mapping
    assert list(after) == list(before)
    assert all(after[name] is before[name] for name in before)


def call(**changed: Any) -> dict[str, Any]:
    """Return the arguments of an attention that fits, with some of them changed."""
    module = SimpleNamespace(is_causal=True, num_key_value_groups=2)
    q, k = torch.randn(2, 4, 6, 8, device="npu"), torch.randn(2, 2, 6, 8, device="npu")
    return {"module": module, "query": q, "key": k, "value": k, **changed}


def wide(size: int, device: str = "npu", dtype: torch.dtype = torch.float32) -> dict[str, Any]:
    q, k = (torch.zeros(2, heads, 6, size, device=device, dtype=dtype) for heads in (4, 2))
    return {"query": q, "key": k, "value": k}


LEFT = {
    "tensors of the CPU": lambda: wide(8, "cpu"),
    "one tensor of the CPU": lambda: {"value": torch.randn(2, 2, 6, 8)},
    "float64": lambda: wide(8, "cpu", torch.float64),
    "two data types": lambda: {"query": torch.randn(2, 4, 6, 8, device="npu", dtype=torch.float16)},
    "values that are wider": lambda: {"value": torch.randn(2, 2, 6, 12, device="npu")},
    "a head of 776 numbers": lambda: wide(776),
    "heads that do not divide": lambda: {"query": torch.randn(2, 3, 6, 8, device="npu")},
    "an empty batch": lambda: {name: value[:0] for name, value in wide(8).items()},
    "a softcap": lambda: {"softcap": 30.0},
    "sinks": lambda: {"s_aux": torch.zeros(4, device="npu")},
    "attention weights": lambda: {"output_attentions": True},
    "everything dropped": lambda: {"dropout": 1.0},
    "a mask of the CPU": lambda: {"attention_mask": torch.ones(2, 1, 6, 6, dtype=torch.bool)},
    "a mask of three dimensions": lambda: {"attention_mask": torch.ones(2, 6, 6, dtype=torch.bool, device="npu")},
    "a mask of more keys": lambda: {"attention_mask": torch.ones(2, 1, 6, 9, dtype=torch.bool, device="npu")},
    "a mask of another data type": lambda: {
        "attention_mask": torch.zeros(2, 1, 6, 6, dtype=torch.float16, device="npu")
    },
    "a mask that is learned": lambda: {"attention_mask": torch.zeros(2, 1, 6, 6, device="npu", requires_grad=True)},
    "a bias that is learned": lambda: {"position_bias": torch.zeros(1, 4, 6, 6, device="npu", requires_grad=True)},
    "a subclass of tensors": lambda: {"key": torch.nn.Buffer(torch.randn(2, 2, 6, 8, device="npu")).as_subclass(Own)},
}


class Own(torch.Tensor):
    """A subclass, as the tensors of distributed torch are one."""


def test_the_plain_call_fits() -> None:
    assert fits(**call())
    assert fits(**call(dropout=0.1, attention_mask=torch.ones(2, 1, 6, 6, dtype=torch.bool, device="npu")))


@pytest.mark.parametrize("reason", LEFT)
def test_what_the_kernel_cannot_do_exactly_stays_with_sdpa(reason: str) -> None:
    assert not fits(**call(**LEFT[reason]()))


def test_a_compiled_model_stays_with_sdpa() -> None:
    seen = []

    def body(x: torch.Tensor) -> torch.Tensor:
        seen.append(fits(**call()))
        return x + 1

    assert torch.compile(body, backend="eager")(torch.zeros(1)).item() == 1
    assert seen == [False]


def test_autocast_computes_in_the_data_type_of_sdpa() -> None:
    given = call()
    reference = ALL_ATTENTION_FUNCTIONS["sdpa"]
    with torch.autocast("npu", dtype=torch.bfloat16):
        expected = reference(given["module"], given["query"], given["key"], given["value"], None)[0]
        with pc.Patcher([SDPA], count=True) as patcher:
            q, k, v = given["query"], given["key"].to(torch.bfloat16), given["value"]
            got = ALL_ATTENTION_FUNCTIONS["sdpa"](given["module"], q, k, v, None)[0]
            assert hits(patcher, SDPA.name) == (1, 1)
    assert got.dtype == expected.dtype == torch.bfloat16
    close(got.float(), expected.float(), TOLERANCES[torch.bfloat16])


def test_dropout_drops_its_share_and_scales_the_rest() -> None:
    q = torch.zeros(1, 2, 64, 16, device="npu", dtype=torch.float16)
    v = torch.ones_like(q).requires_grad_()
    module = SimpleNamespace(is_causal=False, num_key_value_groups=1)
    with pc.Patcher([SDPA], count=True) as patcher:
        out = ALL_ATTENTION_FUNCTIONS["sdpa"](module, q, q, v, None, dropout=0.25, is_causal=False)[0].float()
        out.sum().backward()
        assert hits(patcher, SDPA.name) == (1, 1)
    out = out.detach()
    assert abs(float(out.mean()) - 1) < 0.05
    # each of 64 weights of 1/64 is kept with 0.75 and scaled by 1/0.75: the variance is 0.25 / 0.75 / 64
    assert 0.8 < float(out.std()) / (0.25 / 0.75 / 64) ** 0.5 < 1.2
    assert v.grad is not None
    assert abs(float(v.grad.float().sum()) / float(out.sum()) - 1) < 0.01


def test_numbers_in_a_mask_are_added_as_they_are() -> None:
    """transformers makes bools of them on an NPU, from 4.57 on: a bias of any size hides the pair."""
    given = call()
    bias = torch.randn(2, 1, 6, 6, device="npu")
    arguments = (given["module"], given["query"], given["key"], given["value"], bias)
    expected = attention_by_definition(*arguments[1:4], scale=8**-0.5, added=bias)
    error = float((ALL_ATTENTION_FUNCTIONS["sdpa"](*arguments)[0] - expected).abs().max())
    assert (error > 0.1) == (RELEASE >= (4, 57))
    with pc.Patcher([SDPA]):
        close(ALL_ATTENTION_FUNCTIONS["sdpa"](*arguments)[0], expected, TOLERANCES[torch.float32])


def test_rows_of_minus_infinity_give_numbers() -> None:
    given = call()
    mask = torch.zeros(2, 1, 6, 6, device="npu")
    mask[:, :, 2] = -torch.inf
    with pc.Patcher([SDPA]):
        out = ALL_ATTENTION_FUNCTIONS["sdpa"](given["module"], given["query"], given["key"], given["value"], mask)[0]
    assert bool(out.isfinite().all())


def test_the_causal_mask_of_inference_serves_training() -> None:
    from transformers_npu.doors import attention

    attention._causal_masks.clear()
    given = call(query=torch.randn(2, 4, 6, 8, device="npu", requires_grad=True))
    arguments = (given["module"], given["query"], given["key"], given["value"], None)
    with pc.Patcher([SDPA]):
        with torch.inference_mode():
            ALL_ATTENTION_FUNCTIONS["sdpa"](*arguments)
        ALL_ATTENTION_FUNCTIONS["sdpa"](*arguments)[0].sum().backward()
    assert given["query"].grad is not None


@pytest.mark.skipif(MAJOR < 5, reason="transformers 4 has no position_bias")
def test_position_bias_is_in_one_kernel_unless_it_is_learned_now() -> None:
    config = transformers.T5Config(vocab_size=64, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4)
    ids = torch.randint(1, 64, (2, 7), generator=torch.Generator().manual_seed(3))

    def logits(device: str, **how: Any) -> torch.Tensor:
        torch.manual_seed(0)
        model = transformers.T5ForConditionalGeneration._from_config(config, **how).eval().to(device)
        return model(input_ids=ids.to(device), decoder_input_ids=ids.to(device)).logits

    expected = logits("cpu", attn_implementation="eager")
    with pc.Patcher([SDPA], count=True) as patcher:
        with torch.no_grad():
            got = logits("npu")
        calls, replaced = hits(patcher, SDPA.name)
        trained = logits("npu")
        trained.sum().backward()
        more_calls, more_replaced = hits(patcher, SDPA.name)
    close(got.cpu(), expected.detach(), TOLERANCES[torch.float32])
    close(trained.detach().cpu(), expected.detach(), TOLERANCES[torch.float32])
    assert calls == more_calls - calls
    if calls:  # T5 computes its own attention in some releases
        assert replaced == calls > more_replaced - replaced


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_flash_attention_keeps_sliding_windows(dtype: torch.dtype) -> None:
    batch = padded_batch(length=12)
    make = tiny("Mistral", sliding_window=4)
    # until 4.55, flash attention's window is one position longer than eager attention's, with CUDA, too
    eager = make if RELEASE >= (4, 56) else tiny("Mistral", sliding_window=5)
    expected = step(eager(attn_implementation="eager"), batch, "cpu", dtype)
    plain = {name: value for name, value in batch.items() if name != "attention_mask"}
    expected_plain = step(eager(attn_implementation="eager"), plain, "cpu", dtype)
    with pc.Patcher([FLASH_WINDOWS], count=True) as patcher:
        got = step(make(attn_implementation="flash_attention_2"), batch, "npu", dtype)
        got_plain = step(make(attn_implementation="flash_attention_2"), plain, "npu", dtype)
        assert [change.calls for change in patcher.report()[FLASH_WINDOWS.name].changes] == [2, 2, None]
    assert_equal(got, expected, dtype)
    assert_equal(got_plain, expected_plain, dtype)


def test_the_plan_says_that_transformers_4_has_no_interface_for_experts() -> None:
    entry = pc.Patcher([GROUPED_MM]).plan()[GROUPED_MM.name]
    if MAJOR < 5:
        assert (entry.verdict, entry.reason) == (
            "skipped",
            f"requires transformers>=5,<6, found transformers {transformers.__version__}",
        )
    else:
        assert entry.verdict == "apply"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_narrower_values_get_zeros_behind_them(dtype: torch.dtype) -> None:
    """The latent attention of DeepSeek V3: the heads of its queries and keys have 16 numbers, those of its values 8."""
    latent = {"kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8}
    more = {"n_routed_experts": 4, "n_group": 2, "topk_group": 1, "moe_intermediate_size": 16, "num_experts_per_tok": 2}
    make = tiny("DeepseekV3", num_key_value_heads=4, first_k_dense_replace=2, **latent, **more)
    expected = step(make(attn_implementation="eager"), padded_batch(), "cpu", dtype)
    with pc.Patcher([SDPA], count=True) as patcher:
        got = step(make(), padded_batch(), "npu", dtype)
        assert hits(patcher, SDPA.name) == (2, 2)
    assert_equal(got, expected, dtype)


def test_second_derivatives_are_refused() -> None:
    query, key, value = (torch.randn(1, 2, 4, 8).npu().requires_grad_() for _ in range(3))
    with pc.Patcher([SDPA]):
        result = ALL_ATTENTION_FUNCTIONS["sdpa"](SimpleNamespace(is_causal=True), query, key, value, None)[0]
        with pytest.raises(RuntimeError, match=r"create_graph=True.*PATCHCORE_DISABLE=transformers\.attention"):
            torch.autograd.grad(result.sum(), [query, key, value], create_graph=True)
        torch.autograd.grad(result.sum(), [query])
