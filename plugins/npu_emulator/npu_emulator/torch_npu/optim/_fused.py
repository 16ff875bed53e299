"""The base of the fused optimizers, which compute on combined tensors.

At the first step parameters, gradients and states move into one memory for each dtype, group behind group, and each
step then computes on whole groups. The attributes that hold those tensors have the names of torch_npu's (2.6,
``torch_npu/optim/npu_fused_optim_base.py``), because code outside replaces ``_group_step``, which works on them.

What torch_npu would compute with tensors that are in use no more, because somebody exchanged a gradient after they
were combined, is an error here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable, Optional

import torch
from torch import Tensor
from torch.optim import Optimizer

from npu_emulator.torch_npu.utils import get_part_combined_tensor, is_combined_tensor_valid, npu_combine_tensors

__all__ = ["NpuFusedOptimizerBase"]

#: There is a combined tensor for each, in this order.
DTYPES = (torch.float32, torch.float16)


class NpuFusedOptimizerBase(Optimizer):
    """Base of the fused optimizers. They set ``_states`` and override :meth:`_update`.

    Args:
        params: parameters, or groups of them.
        default: the values for groups that set none.
    """

    #: The tensors that the state of a parameter may have.
    _states: tuple[str, ...] = ()
    is_params_grads_combined = False

    def __init__(self, params: Any, default: dict[str, Any]) -> None:
        super().__init__(params, default)
        # For each group a list with an entry for each dtype, None where the group has no parameter of it.
        self.combined_params_indexed_by_group: Optional[list[list[Optional[Tensor]]]] = None
        self.combined_grads_indexed_by_group: Optional[list[list[Optional[Tensor]]]] = None
        self.combined_param_states_indexed_by_group: Optional[list[list[dict[str, Any]]]] = None
        self.params_lists_indexed_by_group: list[list[list[Tensor]]] = []
        # An entry for each dtype.
        self.params_all_group_combined: list[Optional[Tensor]] = [None for _ in DTYPES]
        self.grads_all_group_combined: list[Optional[Tensor]] = [None for _ in DTYPES]
        self.is_params_grads_combined = False
        self.is_states_combined = False
        #: By which torch_npu's GradScaler and apex know them.
        self.is_fused_optimizer = True

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Update the parameters that had gradients at the first step.

        Args:
            closure: computes the loss once more, with gradients.

        Raises:
            TypeError: a parameter is neither float32 nor float16.
            RuntimeError: a parameter is not on the NPU, its gradient is sparse, laid out otherwise, or not the one that
                was combined.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._maybe_init_combined_params_and_grads()
        self._maybe_init_combined_states()
        self._check_combined()
        for group_index in range(len(self.param_groups)):
            self._group_step(group_index)
        return loss

    @torch.no_grad()
    def zero_grad(self, set_to_none: bool = False) -> None:
        """Set the gradients to zero.

        Args:
            set_to_none: must be false: the gradients are parts of a combined tensor.

        Raises:
            ValueError: it is not.
        """
        if set_to_none:
            raise ValueError("set_to_none is not supported in fused optimizers")
        self._maybe_init_combined_params_and_grads()
        for gradients in self.grads_all_group_combined:
            if gradients is not None:
                gradients.zero_()

    @torch.no_grad()
    def clip_grad_norm_fused_(self, max_norm: float, norm_type: float = 2) -> Tensor:
        """Scale all gradients of the optimizer so that their norm is at most a given one.

        The same arithmetic as ``torch.nn.utils.clip_grad_norm_`` on all parameters, but norms are taken in float32.

        Args:
            max_norm: the greatest norm.
            norm_type: which norm, ``inf`` for the maximum.

        Returns:
            The norm before, a tensor of no dimensions; on the CPU when there are no gradients.

        Raises:
            TypeError: see :meth:`step`.
            RuntimeError: see there.
        """
        self._maybe_init_combined_params_and_grads()
        self._check_combined()
        gradients = [combined for combined in self.get_combined_grads() if combined is not None]
        if not gradients:
            return torch.tensor(0.0)
        norms = [torch.linalg.vector_norm(gradient.float(), float(norm_type)) for gradient in gradients]
        first = norms[0].device
        total = torch.linalg.vector_norm(torch.stack([norm.to(first) for norm in norms]), float(norm_type))
        factor = float(max_norm) / (total + 1e-6)
        if factor < 1:
            for gradient in gradients:
                gradient.mul_(factor.to(gradient.device))
        return total

    def get_combined_params(self) -> list[Optional[Tensor]]:
        """Return all parameters as one tensor for float32 and one for float16; ``None`` before they are combined."""
        return self.params_all_group_combined

    def get_combined_grads(self) -> list[Optional[Tensor]]:
        """Return all gradients as one tensor for float32 and one for float16; ``None`` before they are combined."""
        return self.grads_all_group_combined

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters.

        Raises:
            RuntimeError: those there are have been combined.
        """
        if self.is_params_grads_combined:
            raise RuntimeError(f"{self._name}: expected all parameter groups before the first step, found one more")
        super().add_param_group(param_group)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state.

        Raises:
            RuntimeError: states have been combined; torch_npu would go on with those.
        """
        if self.is_states_combined:
            raise RuntimeError(
                f"{self._name}: expected load_state_dict() before the first step; after it, the states are combined "
                "and loading has no effect. Make a new optimizer"
            )
        super().load_state_dict(state_dict)

    def _state_names(self, group: dict[str, Any]) -> list[str]:
        """Return which of the tensors the state of a parameter of a group has."""
        return list(self._states)

    def _initial_state(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        """Return the state of a parameter before its first step."""
        zeros = {name: torch.zeros_like(parameter) for name in self._state_names(group)}
        return {"step": 0, **zeros}

    def _update(self, group: dict[str, Any], parameters: Tensor, gradients: Tensor, state: dict[str, Any]) -> None:
        """Compute a step on combined tensors."""
        raise NotImplementedError

    def _maybe_init_combined_params_and_grads(self) -> None:
        if self.is_params_grads_combined:
            return
        groups = [list(self._with_gradient(group)) for group in self.param_groups]
        for parameter in (parameter for group in groups for parameter in group):
            self._check_parameter(parameter)
        by_dtype = [[[one for one in group if one.dtype == dtype] for dtype in DTYPES] for group in groups]
        everything = [[one for group in by_dtype for one in group[index]] for index in range(len(DTYPES))]
        self.params_lists_indexed_by_group = by_dtype
        self.params_all_group_combined = [npu_combine_tensors(ones) for ones in everything]
        self.grads_all_group_combined = [npu_combine_tensors([one.grad for one in ones]) for ones in everything]
        self.combined_params_indexed_by_group = _by_group(self.params_all_group_combined, by_dtype)
        self.combined_grads_indexed_by_group = _by_group(self.grads_all_group_combined, by_dtype)
        self.is_params_grads_combined = any(one is not None for one in self.params_all_group_combined)

    def _maybe_init_combined_states(self) -> None:
        if self.is_states_combined or not self.is_params_grads_combined:
            return
        self.combined_param_states_indexed_by_group = [
            [self._combined_state(parameters, group) for parameters in lists]
            for group, lists in zip(self.param_groups, self.params_lists_indexed_by_group)
        ]
        self.is_states_combined = True

    def _combined_state(self, parameters: list[Tensor], group: dict[str, Any]) -> dict[str, Any]:
        names = self._state_names(group)
        for parameter in parameters:
            state = self.state[parameter]
            for name, value in (state or self._initial_state(parameter, group)).items():
                # One that was loaded may have other strides.
                state[name] = torch.empty_like(parameter).copy_(value) if name in names else value
        first = self.state[parameters[0]] if parameters else {}
        combined = {name: npu_combine_tensors([self.state[one][name] for one in parameters]) for name in names}
        return {**dict.fromkeys(self._states), **first, **combined}

    def _group_step(self, group_index: int) -> None:
        """Update the parameters of one group.

        Args:
            group_index: which of ``param_groups``.
        """
        combined = self.combined_params_indexed_by_group
        combined_gradients = self.combined_grads_indexed_by_group
        combined_states = self.combined_param_states_indexed_by_group
        if combined is None or combined_gradients is None or combined_states is None:  # there was no gradient yet
            return
        group = self.param_groups[group_index]
        for parameter in self._with_gradient(group):
            self._refuse_sparse(parameter)
            state = self.state[parameter]
            if "step" in state:
                state["step"] += 1
        for parameters, gradients, state in zip(
            combined[group_index], combined_gradients[group_index], combined_states[group_index]
        ):
            if parameters is None or gradients is None:
                continue
            if "step" in state:
                state["step"] += 1
            self._update(group, parameters, gradients, state)

    @property
    def _name(self) -> str:
        return type(self).__name__

    @staticmethod
    def _with_gradient(group: dict[str, Any]) -> Iterator[Tensor]:
        return (parameter for parameter in group["params"] if parameter.grad is not None)

    def _refuse_sparse(self, parameter: Tensor) -> None:
        if parameter.grad.is_sparse:
            raise RuntimeError(f"{self._name} does not support sparse gradients")

    def _check_parameter(self, parameter: Tensor) -> None:
        if parameter.device.type != "npu":
            raise RuntimeError(f"{self._name}: expected parameters on the NPU, found one on {parameter.device}")
        if parameter.dtype not in DTYPES:
            raise TypeError(
                f"Fused optimizer's parameters must be either float32 or float16, but received {parameter.dtype}"
            )
        self._refuse_sparse(parameter)
        if _layout(parameter) != _layout(parameter.grad):
            raise RuntimeError(
                f"{self._name}: expected gradients with the strides of their parameters, found "
                f"{parameter.grad.stride()} for a parameter of shape {tuple(parameter.shape)} with {parameter.stride()}"
            )

    def _check_combined(self) -> None:
        """Raise unless all parameters and gradients are in the combined tensors; sparse ones are refused elsewhere."""
        if not self.is_params_grads_combined:
            return
        for group, lists in zip(self.param_groups, self.params_lists_indexed_by_group):
            for combined, whole, gradients in zip(lists, self.params_all_group_combined, self.grads_all_group_combined):
                parameters = [parameter for parameter in combined if parameter.numel()]
                dense = [one.grad for one in parameters if one.grad is None or not one.grad.is_sparse]
                if not is_combined_tensor_valid(gradients, dense):
                    raise RuntimeError(
                        f"{self._name}: expected the gradients of the first step, found others or none; torch_npu "
                        "would use the old ones. Call zero_grad() of the optimizer, which keeps them; zero_grad() of "
                        "the model removes them"
                    )
                if not is_combined_tensor_valid(whole, parameters):
                    raise RuntimeError(
                        f"{self._name}: expected the parameters of the first step, but the model has been "
                        "moved or converted since; make a new optimizer"
                    )
            known = {id(one) for parameters in lists for one in parameters}
            if any(id(one) not in known for one in self._with_gradient(group)):
                raise RuntimeError(
                    f"{self._name}: expected gradients for the same parameters as in the first step, found one more; "
                    "torch_npu updates only those that were combined then"
                )


def _by_group(combined: list[Optional[Tensor]], groups: list[list[list[Tensor]]]) -> list[list[Optional[Tensor]]]:
    """Return the parts of combined tensors that belong to each group."""
    offsets = [0] * len(combined)
    parts = []
    for group in groups:
        sizes = [sum(tensor.numel() for tensor in tensors) for tensors in group]
        parts.append([get_part_combined_tensor(*part) for part in zip(combined, offsets, sizes)])
        offsets = [offset + size for offset, size in zip(offsets, sizes)]
    return parts


def _layout(tensor: Tensor) -> list[tuple[int, int]]:
    """Return size and stride of the dimensions in which a tensor has neighbours."""
    return [(size, stride) for size, stride in zip(tensor.shape, tensor.stride()) if size != 1]
