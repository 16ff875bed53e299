"""The experts of a mixture in grouped kernels, for models that transformers sends through its ``ExpertsInterface``.

Tokens are sorted by expert (``npu_moe_token_permute``), multiplied with the matrices of their experts
(``npu_grouped_matmul``) and brought back in place (``npu_moe_token_unpermute``). torch_npu has no gradient for
``npu_grouped_matmul``: :func:`grouped_product` has one, of the same kernel, grouped by rows for the tokens and by the
inner axis for the matrices.

The limits are those of the public pages of the operators (op-plugin, ``docs/context``): float16, bfloat16 and float32,
at most 1,024 experts, last sizes below 65,536, up to 512 experts for a token.
"""

from __future__ import annotations

from typing import Any

from transformers_npu.kernels.calls import is_traced

MOST_EXPERTS = 1024
MOST_EXPERTS_OF_A_TOKEN = 512
INNER_LIMIT = 65536
BY_ROWS, BY_INNER_AXIS = 0, 2
ONE_TENSOR = 3
ENDS = 0


def fits(module: Any, hidden_states: Any, top_k_index: Any, top_k_weights: Any) -> bool:
    """Return whether the grouped kernels compute what ``grouped_mm`` of transformers does.

    Args:
        module: the experts, of a class that transformers decorates with ``use_experts_implementation``.
        hidden_states: tokens, size.
        top_k_index: tokens, chosen experts.
        top_k_weights: the weight of each choice.
    """
    import torch

    if getattr(module, "_is_expert_parallel", False) or is_traced():
        return False
    if not all(hasattr(module, name) for name in ("has_bias", "is_transposed", "_apply_gate", "num_experts")):
        return False
    matrices = (module.gate_up_proj if _has_gate(module) else module.up_proj, module.down_proj)
    tensors = (hidden_states, top_k_index, top_k_weights)
    if not all(type(tensor) is torch.Tensor and tensor.device.type == "npu" for tensor in tensors):
        return False
    kinds = (torch.float16, torch.bfloat16, torch.float32)
    if not all(
        type(matrix) in (torch.Tensor, torch.nn.Parameter)
        and matrix.device == hidden_states.device
        and matrix.dim() == 3
        and matrix.dtype == matrices[0].dtype
        and matrix.dtype in kinds
        and max(matrix.shape[1:]) < INNER_LIMIT
        for matrix in matrices
    ):
        return False
    return bool(
        hidden_states.dim() == top_k_index.dim() == 2
        and top_k_weights.shape == top_k_index.shape
        and hidden_states.dtype in kinds
        and hidden_states.numel()
        and 1 < module.num_experts == matrices[0].shape[0] <= MOST_EXPERTS
        and 0 < top_k_index.shape[1] <= MOST_EXPERTS_OF_A_TOKEN
    )


def grouped_experts_forward(module: Any, hidden_states: Any, top_k_index: Any, top_k_weights: Any) -> Any:
    """Compute the experts of all tokens in grouped kernels; for a call that :func:`fits`.

    Args:
        module: see :func:`fits`, as for all arguments.
        hidden_states: as above.
        top_k_index: as above.
        top_k_weights: as above.

    Returns:
        The weighted sum for each token, in the data type of ``hidden_states``.
    """
    import torch
    import torch_npu

    chosen = top_k_index.reshape(-1)
    counts = torch.histc(chosen.int(), bins=module.num_experts, min=0, max=module.num_experts - 1)
    ends = counts.cumsum(0, dtype=torch.int64)
    tokens, places = torch_npu.npu_moe_token_permute(hidden_states, top_k_index.int())
    experts = chosen.sort(stable=True)[0] if module.has_bias else None

    def linear(rows: Any, weight: Any, bias: Any) -> Any:
        matrices = weight if module.is_transposed else weight.transpose(1, 2)
        product = grouped_product(rows.to(weight.dtype), matrices, ends)
        return product if bias is None else product + bias[experts].to(product.dtype)

    if _has_gate(module):
        rows = linear(tokens, module.gate_up_proj, module.gate_up_proj_bias if module.has_bias else None)
        rows = module._apply_gate(rows)
    else:
        rows = module.act_fn(linear(tokens, module.up_proj, module.up_proj_bias if module.has_bias else None))
    rows = linear(rows, module.down_proj, module.down_proj_bias if module.has_bias else None)
    if getattr(module, "has_post_expert_norm", False):
        rows = module.post_expert_norm(rows)
    if rows.dtype == top_k_weights.dtype:
        result = torch_npu.npu_moe_token_unpermute(rows.contiguous(), places, top_k_weights.contiguous())
        return result.to(hidden_states.dtype)
    # The product of two types is of the wider one, in which grouped_mm of transformers also sums.
    copies = torch_npu.npu_moe_token_unpermute(rows.contiguous(), places).view(*top_k_index.shape, -1)
    return (copies * top_k_weights.unsqueeze(-1)).sum(1).to(hidden_states.dtype)


def _has_gate(module: Any) -> bool:
    return getattr(module, "has_gate", True)  # the first releases of transformers 5 have gated experts only


def npu_grouped_experts_forward(module: Any, hidden_states: Any, top_k_index: Any, top_k_weights: Any) -> Any:
    """Compute experts for ``experts_implementation="npu_grouped"``: in grouped kernels if they fit, else as grouped_mm.

    Args:
        module: see :func:`fits`, as for all arguments.
        hidden_states: as above.
        top_k_index: as above.
        top_k_weights: as above.
    """
    if fits(module, hidden_states, top_k_index, top_k_weights):
        return grouped_experts_forward(module, hidden_states, top_k_index, top_k_weights)
    from transformers.integrations.moe import grouped_mm_experts_forward

    return grouped_mm_experts_forward(module, hidden_states, top_k_index, top_k_weights)


def grouped_product(rows: Any, matrices: Any, ends: Any) -> Any:
    """Return the product of each group of rows with its matrix, with a gradient for both.

    Args:
        rows: rows, inner size; sorted by group.
        matrices: groups, inner size, outer size.
        ends: of int64: how many rows end before each next group.
    """
    return _grouped_product().apply(rows, matrices, ends)


_function: Any = None


def _grouped_product() -> Any:
    """Return the autograd function, whose base class cannot be named before torch is imported."""
    global _function
    if _function is None:
        import torch

        class GroupedProduct(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, rows: Any, matrices: Any, ends: Any) -> Any:
                ctx.save_for_backward(rows, matrices, ends)
                return _multiply(rows, matrices, ends, BY_ROWS)

            @staticmethod
            @torch.autograd.function.once_differentiable
            def backward(ctx: Any, gradient: Any) -> tuple[Any, Any, None]:
                rows, matrices, ends = ctx.saved_tensors
                of_rows = of_matrices = None
                if ctx.needs_input_grad[0]:
                    of_rows = _multiply(gradient.contiguous(), matrices.transpose(1, 2), ends, BY_ROWS)
                if ctx.needs_input_grad[1]:
                    of_matrices = _multiply(rows.t(), gradient.contiguous(), ends, BY_INNER_AXIS)
                    # The pages do not say what the kernel writes for a group without rows.
                    empty = ends.diff(prepend=ends.new_zeros(1)) == 0
                    of_matrices.masked_fill_(empty.view(-1, 1, 1), 0)
                return of_rows, of_matrices, None

        _function = GroupedProduct
    return _function


def _multiply(left: Any, right: Any, ends: Any, group_type: int) -> Any:
    import torch_npu

    return torch_npu.npu_grouped_matmul(
        [left], [right], group_list=ends, split_item=ONE_TENSOR, group_type=group_type, group_list_type=ENDS
    )[0]
