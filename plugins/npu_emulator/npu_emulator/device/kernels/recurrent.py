"""Cells of LSTM and GRU: autograd sends those of an unknown device to fused operators that only CUDA has.

The order of the gates is that of torch (documentation of ``torch.nn.LSTM`` and ``torch.nn.GRU``, 2.13); the workspace
that a forward returns for its derivative holds the gates after their activations, side by side.
"""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from npu_emulator.device.interface import Core
from npu_emulator.device.kernels.library import KernelLibrary

__all__ = ["gru_cell", "gru_cell_backward", "lstm_cell", "lstm_cell_backward", "register"]


def register(library: KernelLibrary, core: Core) -> None:
    """Register the cells and their derivatives."""
    library.kernel("_thnn_fused_lstm_cell", lstm_cell)
    library.kernel("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward)
    library.kernel("_thnn_fused_gru_cell", gru_cell)
    library.kernel("_thnn_fused_gru_cell_backward", gru_cell_backward)


def lstm_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    cell: Tensor,
    input_bias: Optional[Tensor] = None,
    hidden_bias: Optional[Tensor] = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the next hidden state, the next cell state, and the workspace.

    Args:
        input_gates: (batch, 4 * hidden), the input times its weights.
        hidden_gates: (batch, 4 * hidden), the hidden state times its weights.
        cell: (batch, hidden), the cell state.
        input_bias: (4 * hidden).
        hidden_bias: (4 * hidden).
    """
    gates = input_gates + hidden_gates
    if input_bias is not None:
        gates = gates + input_bias
    if hidden_bias is not None:
        gates = gates + hidden_bias
    enter, forget, candidate, leave = gates.chunk(4, 1)
    enter, forget, candidate, leave = enter.sigmoid(), forget.sigmoid(), candidate.tanh(), leave.sigmoid()
    next_cell = forget * cell + enter * candidate
    return leave * next_cell.tanh(), next_cell, torch.cat([enter, forget, candidate, leave], 1)


def lstm_cell_backward(
    grad_hidden: Optional[Tensor],
    grad_next_cell: Optional[Tensor],
    cell: Tensor,
    next_cell: Tensor,
    workspace: Tensor,
    has_bias: bool,
) -> tuple[Optional[Tensor], Optional[Tensor], Optional[Tensor]]:
    """Return the gradients of the gates, of the cell state and of a bias, from the result of :func:`lstm_cell`."""
    if grad_hidden is None and grad_next_cell is None:
        return None, None, None
    enter, forget, candidate, leave = workspace.chunk(4, 1)
    squashed = next_cell.tanh()
    if grad_hidden is None:
        grad_leave = torch.zeros_like(leave)
        grad_cell = grad_next_cell
    else:
        grad_leave = grad_hidden * squashed
        grad_cell = grad_hidden * leave * (1 - squashed * squashed)
        if grad_next_cell is not None:
            grad_cell = grad_cell + grad_next_cell
    grad_gates = torch.cat(
        [
            grad_cell * candidate * enter * (1 - enter),
            grad_cell * cell * forget * (1 - forget),
            grad_cell * enter * (1 - candidate * candidate),
            grad_leave * leave * (1 - leave),
        ],
        1,
    )
    return grad_gates, grad_cell * forget, grad_gates.sum(0) if has_bias else None


def gru_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    hidden: Tensor,
    input_bias: Optional[Tensor] = None,
    hidden_bias: Optional[Tensor] = None,
) -> tuple[Tensor, Tensor]:
    """Return the next hidden state and the workspace.

    Args:
        input_gates: (batch, 3 * hidden), the input times its weights.
        hidden_gates: (batch, 3 * hidden), the hidden state times its weights.
        hidden: (batch, hidden), the hidden state.
        input_bias: (3 * hidden).
        hidden_bias: (3 * hidden).
    """
    if input_bias is not None:
        input_gates = input_gates + input_bias
    if hidden_bias is not None:
        hidden_gates = hidden_gates + hidden_bias
    input_reset, input_update, input_new = input_gates.chunk(3, 1)
    hidden_reset, hidden_update, hidden_new = hidden_gates.chunk(3, 1)
    reset = (input_reset + hidden_reset).sigmoid()
    update = (input_update + hidden_update).sigmoid()
    new = (input_new + reset * hidden_new).tanh()
    next_hidden = update * hidden + (1 - update) * new
    return next_hidden, torch.cat([reset, update, new, hidden, hidden_new], 1)


def gru_cell_backward(
    grad_hidden: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor, Optional[Tensor], Optional[Tensor]]:
    """Return the gradients of both gates, of the hidden state and of both biases, from :func:`gru_cell`'s workspace."""
    reset, update, new, hidden, hidden_new = workspace.chunk(5, 1)
    grad_update = grad_hidden * (hidden - new) * update * (1 - update)
    grad_new = grad_hidden * (1 - update) * (1 - new * new)
    grad_reset = grad_new * hidden_new * reset * (1 - reset)
    grad_input_gates = torch.cat([grad_reset, grad_update, grad_new], 1)
    grad_hidden_gates = torch.cat([grad_reset, grad_update, grad_new * reset], 1)
    return (
        grad_input_gates,
        grad_hidden_gates,
        grad_hidden * update,
        grad_input_gates.sum(0) if has_bias else None,
        grad_hidden_gates.sum(0) if has_bias else None,
    )
