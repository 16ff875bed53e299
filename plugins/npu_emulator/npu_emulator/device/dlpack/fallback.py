"""Runs every operator that has no kernel for NPU tensors on aliases of them on the CPU.

torch calls the fallback with an operator and its arguments. The conversions follow from the operator's schema and are
read once (:mod:`.plans`); the paths that most calls take look at nothing else.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

import torch
from torch import Tensor

from npu_emulator import private_torch
from npu_emulator.device.dlpack import outputs
from npu_emulator.device.dlpack.accounting import Accounting
from npu_emulator.device.dlpack.arguments import Keywords, Lowering, Positional, lowering
from npu_emulator.device.dlpack.devices import Devices
from npu_emulator.device.dlpack.generators import Generators
from npu_emulator.device.dlpack.plans import FRESH, Plan
from npu_emulator.device.dlpack.retagging import dense_npu_alias, npu_alias
from npu_emulator.errors import NotEmulated
from npu_emulator.private_torch import DispatchKeySet, OpOverload

__all__ = ["Fallback"]

Run = Callable[[Positional, Keywords], Any]


class Fallback:
    """The kernel of all operators, for the arguments of one layout.

    Args:
        keys: the dispatch key of the CPU kernels.
        devices: the devices.
        accounting: told of every new tensor.
        generators: of the devices.
    """

    def __init__(self, keys: DispatchKeySet, devices: Devices, accounting: Accounting, generators: Generators) -> None:
        self._keys = keys
        self._dense = keys.has(private_torch.DispatchKey.CPU)
        self._devices = devices
        self._accounting = accounting
        self._generators = generators
        # By id, because OpOverload.__hash__ is a Python function; the closures keep the operators alive.
        self._runs: dict[int, Run] = {}

    def __call__(self, operator: OpOverload, /, *args: Any, **kwargs: Any) -> Any:
        """Run an operator whose arguments torch found to be on an NPU."""
        try:
            run = self._runs[id(operator)]
        except KeyError:
            run = self.prepare(operator)
        return run(args, kwargs)

    def kernel(self, operator: OpOverload) -> Callable[..., Any]:
        """Return a function that does the same as :meth:`__call__` for one operator, without looking it up again."""
        run: Optional[Run] = None

        def kernel(*args: Any, **kwargs: Any) -> Any:
            nonlocal run
            if run is None:
                run = self.prepare(operator)
            return run(args, kwargs)

        return kernel

    def prepare(self, operator: OpOverload) -> Run:
        """Return the function that runs an operator, from now on without looking at its schema."""
        plan = Plan(operator, self._keys)
        if operator.namespace == "aten" and operator._opname.startswith("_foreach_"):
            run = self._run_foreach(plan)
        elif plan.outs:
            run = self._run_out(plan)
        elif plan.generator is not None or plan.seeded:
            run = self._run_random(plan)
        else:
            run = self._run_plain(plan)
        self._runs[id(operator)] = run
        return run

    def _run_plain(self, plan: Plan) -> Run:
        lower, lift, adopt = self._lower(plan), self._lift(plan), self._adopt
        redispatch, keys = plan.redispatch, plan.keys

        def run(args: Positional, kwargs: Keywords) -> Any:
            index, numbers, cpu_args, cpu_kwargs = lower(args, kwargs)
            return lift(_compute(plan, numbers, cpu_args, cpu_kwargs), index, args, kwargs)

        def run_for_fresh(args: Positional, kwargs: Keywords) -> Any:
            # As run(), without the calls: most operators pass here.
            index, numbers, cpu_args, cpu_kwargs = lower(args, kwargs)
            if numbers:
                result = _compute(plan, numbers, cpu_args, cpu_kwargs)
            else:
                try:
                    result = redispatch(keys, *cpu_args, **cpu_kwargs)
                except RuntimeError as error:
                    _explain(plan, error)
                    raise
            return adopt(result, index) if isinstance(result, Tensor) else lift(result, index, args, kwargs)

        return run_for_fresh if plan.results == (FRESH,) else run

    def _run_random(self, plan: Plan) -> Run:
        lower, lift, generators, position = self._lower(plan), self._lift(plan), self._generators, plan.generator

        def run(args: Positional, kwargs: Keywords) -> Any:
            index, numbers, cpu_args, cpu_kwargs = lower(args, kwargs)
            if position is None:
                with generators.in_place_of_cpu(index):
                    result = _compute(plan, numbers, cpu_args, cpu_kwargs)
            else:
                if position < len(cpu_args):
                    cpu_args[position] = generators.engine(cpu_args[position], index)
                else:
                    cpu_kwargs["generator"] = generators.engine(cpu_kwargs.get("generator"), index)
                result = _compute(plan, numbers, cpu_args, cpu_kwargs)
            return lift(result, index, args, kwargs)

        return run

    def _run_out(self, plan: Plan) -> Run:
        lower, generators, takes_generator = self._lower(plan), self._generators, plan.generator is not None

        def run(args: Positional, kwargs: Keywords) -> Any:
            index, numbers, cpu_args, cpu_kwargs = lower(args, kwargs)
            if takes_generator:
                cpu_kwargs["generator"] = generators.engine(cpu_kwargs.get("generator"), index)

            def compute(keywords: dict[str, Any]) -> None:
                _compute(plan, numbers, cpu_args, keywords)

            outputs.fill(plan.outs, kwargs, cpu_kwargs, compute, self._adopt)
            if not plan.results:
                return None
            written = tuple(kwargs[name] for name in plan.outs)
            return written[0] if len(plan.results) == 1 else written

        return run

    def _run_foreach(self, plan: Plan) -> Run:
        """Run a ``_foreach_`` operator at once where all tensors are on one device, else tensor by tensor."""
        run_together = self._run_out(plan) if plan.outs else self._run_plain(plan)
        lists = plan.lists

        def run(args: Positional, kwargs: Keywords) -> Any:
            devices = {tensor.get_device() for position in lists if position < len(args) for tensor in args[position]}
            if len(devices) == 1 or plan.outs or len(args[0]) == 1:
                return run_together(args, kwargs)
            results = []
            for number in range(len(args[0])):
                single = [[value[number]] if place in lists else value for place, value in enumerate(args)]
                results.append(run_together(tuple(single), kwargs))
            return [result[0] for result in results] if plan.results else None

        return run

    def _lower(self, plan: Plan) -> Lowering:
        return lowering(plan, self._devices, self._dense)

    def _adopt(self, tensor: Tensor, index: int) -> Tensor:
        """Put a new CPU tensor onto a device."""
        if tensor.layout is torch.strided and not tensor.is_conj() and not tensor.is_neg():
            alias = dense_npu_alias(tensor, index)
            self._accounting.add(alias, index)
            return alias
        return npu_alias(tensor, index)

    def _lift(self, plan: Plan) -> Callable[[Any, int, Positional, Keywords], Any]:
        """Return the function that puts the results of a call onto its device, or returns the arguments they are."""
        results, names = plan.results, plan.names
        adopt = self._adopt

        def lift_value(value: Any, index: int) -> Any:
            if isinstance(value, Tensor):
                return adopt(value, index)
            if isinstance(value, (list, tuple)):
                return [lift_value(item, index) for item in value]
            return value

        def argument(position: int, args: Positional, kwargs: Keywords) -> Any:
            return args[position] if position < len(args) else kwargs[names[position]]

        if results == (FRESH,):
            return lambda result, index, args, kwargs: lift_value(result, index)
        if not results:
            return lambda result, index, args, kwargs: None
        if len(results) == 1:
            return lambda result, index, args, kwargs: argument(results[0], args, kwargs)
        return lambda result, index, args, kwargs: tuple(
            lift_value(value, index) if position == FRESH else argument(position, args, kwargs)
            for position, value in zip(results, result)
        )


def _compute(plan: Plan, numbers: bool, args: list[Any], kwargs: Keywords) -> Any:
    """Run the CPU's kernel of an operator."""
    try:
        if numbers:
            return _call_with_numbers(plan, args, kwargs)
        return plan.redispatch(plan.keys, *args, **kwargs)
    except RuntimeError as error:
        _explain(plan, error)
        raise


def _call_with_numbers(plan: Plan, args: list[Any], kwargs: Keywords) -> Any:
    """Call an operator some of whose tensors are numbers, as in ``tensor + 1``, without losing that they are numbers.

    torch hands them over as Python numbers, which by its rules of promotion are weaker than tensors of no dimensions.
    """
    if plan.takes_numbers:
        return plan.operator(*args, **kwargs)
    try:
        # The overload for numbers, if the operator has one.
        return plan.operator._overloadpacket(*args, **kwargs)
    except (RuntimeError, TypeError):
        tensors = [args[position] for position in plan.tensors if position < len(args)]
        strong = next((tensor for tensor in tensors if isinstance(tensor, Tensor) and tensor.dtype != torch.bool), None)
        for position in plan.tensors:
            if position < len(args) and isinstance(args[position], (bool, int, float, complex)):
                args[position] = _tensor_of(args[position], strong)
        return plan.redispatch(plan.keys, *args, **kwargs)


def _tensor_of(number: Any, beside: Any) -> Tensor:
    dtype = None if beside is None else torch.result_type(beside, number)
    return torch.tensor(number, dtype=dtype, device="cpu")


def _explain(plan: Plan, error: RuntimeError) -> None:
    """Raise an error that names the emulator where the emulator is at fault.

    Raises:
        NotEmulated: the operator needs a feature that this core lacks.
    """
    if isinstance(error, NotImplementedError) and not isinstance(error, NotEmulated):
        reason, _, _ = str(error).partition(". ")
        raise NotEmulated(
            f"npu_emulator: an emulated NPU runs {plan.operator} with its CPU kernel, and it has none. Register a "
            f"kernel for the dispatch key PrivateUse1 or CPU. The error of torch: {reason}."
        ) from error
    if plan.mutates and outputs.asks_for_resize(error):
        raise NotEmulated(
            f"npu_emulator: {plan.operator} resizes the memory of its argument, which the Python core cannot do. Use "
            "the compiled core (python -m npu_emulator build), or pass a tensor of the final size."
        ) from error
