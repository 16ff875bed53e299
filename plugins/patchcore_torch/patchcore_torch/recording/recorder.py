"""The recorder: called by torch around modules and optimizers and at the end of each step; it writes what it sees."""

from __future__ import annotations

import logging
import os
import sys
import sysconfig
import threading
from pathlib import Path
from types import FrameType
from typing import Any, Callable, Optional

from patchcore.plugin import describe_error, parse_decimal, print_message, process_rank, rank_variable, run_role
from patchcore_torch.recording.naming import Names
from patchcore_torch.recording.options import Ranges, RecordingOptions
from patchcore_torch.recording.records import MOST_RANKS, RecordFile
from patchcore_torch.training.ending import at_end

__all__ = ["FORWARD", "GRADIENT", "OPERATOR", "PARAMETER", "PARAMETER_GRADIENT", "STATE", "Recorder"]

logger = logging.getLogger("patchcore")

# The phases of a step, in the order in which they usually come.
FORWARD, GRADIENT, PARAMETER_GRADIENT = "forward", "gradient", "parameter gradient"
PARAMETER, STATE, OPERATOR = "parameter", "optimizer state", "operator"

_SITE_PACKAGES = tuple(sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}))
#: The role of a process that is neither the program nor a rank.
WORKER = "worker"
#: Folders of packages whose frames are never the place of a call.
_PASSED = ("torch", "patchcore_torch", "patchcore", "torch_npu")


class Recorder:
    """Records the modules, gradients, parameters and optimizers of this process in chosen steps.

    It is the wrapper of :func:`patchcore_torch.training.steps.after_step`; its other methods are hooks of torch. An
    error costs the recording, not the training.

    Args:
        options: which steps and ranks.
    """

    def __init__(self, options: RecordingOptions) -> None:
        self.options = options
        self._steps = Ranges(options.steps, "steps", 1)
        self.begin()

    def begin(self) -> None:
        """Start with step 1: the patch is being applied."""
        self._step = 1
        self._order = 0
        self._names: Optional[Names] = None
        self._file: Optional[RecordFile] = None
        self._calls: dict[tuple[str, str], int] = {}
        self._lock = threading.RLock()
        self._local = threading.local()  # modules: those that are being called; busy: describing a tensor
        self._off = False
        self._name = ""  # of this process, once it has something to record
        self._process = os.getpid()
        self._recorded: set[int] = set()
        self._unseen = 0

    # --- steps --------------------------------------------------------------------------------------------------------

    def __call__(self, original: Callable[[], None]) -> None:
        original()
        self._step += 1
        self._calls.clear()
        self._guard(self._flush)
        if self._steps.is_past(self._step) and not self._off:
            self._guard(self._finish)

    @property
    def recording(self) -> bool:
        """Whether what happens now is recorded."""
        if self._off or self._step not in self._steps or getattr(self._local, "busy", False):
            return False
        if os.getpid() != self._process:  # forked: the parent writes
            self._off, self._file = True, None
        elif not self._name:
            self._decide()
        return not self._off

    def _decide(self) -> None:
        """Name this process; it writes nothing if it is a worker, or a rank that is not to be recorded."""
        rank = _rank()
        self._name = "main" if rank is None else f"rank{rank}"
        if rank is None:
            self._off = run_role() == WORKER
        else:
            self._off = rank not in Ranges(self.options.ranks, "ranks", 0)

    def _flush(self) -> None:
        if self._file is not None:
            self._file.flush()

    # --- hooks of torch -----------------------------------------------------------------------------------------------

    def enter_module(self, module: Any, args: Any) -> None:
        """Note that a module is called: a hook of ``register_module_forward_pre_hook`` (torch 2.0 and later)."""
        if self.recording:
            self._guard(self._enter, module, args)

    def leave_module(self, module: Any, args: Any, output: Any) -> None:
        """Record the results of a module: a hook of ``register_module_forward_hook``, called after an exception too."""
        if getattr(self._local, "modules", None):
            self._guard(self._leave, module, output)

    def before_optimizer(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Record the gradients: a hook of ``register_optimizer_step_pre_hook`` (torch 2.0 and later)."""
        if self.recording:
            self._guard(self._record_gradients, optimizer)

    def after_optimizer(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Record parameters and state: a hook of ``register_optimizer_step_post_hook`` (torch 2.0 and later)."""
        if self.recording:
            self._guard(self._record_update, optimizer)

    # torch.compile is not to trace them (torch 2.0 to 2.13 _dynamo/eval_frame.py)
    _hooks: tuple[Any, ...] = (enter_module, leave_module, before_optimizer, after_optimizer)
    for _hook in _hooks:
        _hook._torchdynamo_disable = True
    del _hooks, _hook

    def _guard(self, function: Callable[..., None], *arguments: Any) -> None:
        try:
            function(*arguments)
        except Exception as error:
            self._off = True
            self._local.modules = []
            logger.warning("the recording has failed, training goes on: %s", describe_error(error), exc_info=True)

    # --- modules ------------------------------------------------------------------------------------------------------

    def _enter(self, module: Any, args: Any) -> None:
        modules = self._called()
        if self._names is None:
            self._names = Names()
        if self._names.is_wrapper(module):
            return
        if not modules:
            self._names.add(module)
        name = self._names.of_module(module)
        kind = f"{type(module).__module__}:{type(module).__qualname__}"
        place = _place()
        call = self._call(name, "")
        if not modules:
            for item, tensor in _tensors(args, "input"):
                self._write(FORWARD, name, item, tensor, kind=kind, call=call, at=place)
        mode = self._operators() if self.options.operators and not modules else None
        modules.append((module, name, kind, place, call, mode))

    def _leave(self, module: Any, output: Any) -> None:
        modules = self._called()
        if not any(entry[0] is module for entry in modules):
            return
        while True:
            called, name, kind, place, call, mode = modules.pop()
            if mode is not None:
                mode.__exit__(None, None, None)
            if called is module:
                break
        if not self.recording:
            return
        facts = {"kind": kind, "call": call, "at": place}
        for item, tensor in _tensors(output, "output"):
            self._write(FORWARD, name, item, tensor, **facts)
            if tensor.requires_grad and (tensor.is_floating_point() or tensor.is_complex()):
                self._follow(tensor, name, item, facts)

    def _follow(self, tensor: Any, name: str, item: str, facts: dict[str, Any]) -> None:
        """Record the gradient of a tensor when there is one."""

        def record(gradient: Any) -> None:
            if self.recording:
                self._guard(lambda: self._write(GRADIENT, name, item, gradient, **facts))

        tensor.register_hook(record)

    def _called(self) -> list[Any]:
        modules: Optional[list[Any]] = getattr(self._local, "modules", None)
        if modules is None:
            modules = self._local.modules = []
        return modules

    def _call(self, name: str, operator: str) -> int:
        with self._lock:
            number = self._calls[name, operator] = self._calls.get((name, operator), 0) + 1
        return number

    # --- operators ----------------------------------------------------------------------------------------------------

    def _operators(self) -> Any:
        from patchcore_torch.recording.operators import OperatorMode

        mode = OperatorMode(self.saw_operator)
        mode.__enter__()
        return mode

    def saw_operator(self, operator: str, result: Any) -> None:
        """Record the results of an operator in the module that is being called.

        Args:
            operator: its name, ``aten::add.Tensor``.
            result: of the call.
        """
        modules = self._called()
        if not modules or not self.recording or "empty" in operator:  # values that nobody has written
            return
        _, name, kind, _, _, _ = modules[-1]
        self._guard(self._record_operator, operator, result, name, kind)

    def _record_operator(self, operator: str, result: Any, name: str, kind: str) -> None:
        call = self._call(name, operator)
        for item, tensor in _tensors(result, "output"):
            self._write(OPERATOR, name, item, tensor, kind=kind, call=call, at=_place(), operator=operator)

    # --- optimizers ---------------------------------------------------------------------------------------------------

    def _record_gradients(self, optimizer: Any) -> None:
        for name, parameter in self._parameters(optimizer):
            if parameter.grad is not None:
                self._write(PARAMETER_GRADIENT, name, "gradient", parameter.grad, kind=_class_of(optimizer))

    def _record_update(self, optimizer: Any) -> None:
        kind = _class_of(optimizer)
        for name, parameter in self._parameters(optimizer):
            self._write(PARAMETER, name, "value", parameter, kind=kind)
            for key, value in sorted(optimizer.state.get(parameter, {}).items(), key=lambda entry: str(entry[0])):
                for item, tensor in _tensors(value, str(key)):
                    self._write(STATE, name, item, tensor, kind=kind)

    def _parameters(self, optimizer: Any) -> list[tuple[str, Any]]:
        names = self._names or Names()
        return [
            (names.of_parameter(parameter, f"{type(optimizer).__name__}.{group}.{number}"), parameter)
            for group, parameters in enumerate(optimizer.param_groups)
            for number, parameter in enumerate(parameters["params"])
        ]

    # --- writing ------------------------------------------------------------------------------------------------------

    def _write(self, phase: str, name: str, item: str, tensor: Any, call: int = 1, **facts: Any) -> None:
        from patchcore_torch.recording import statistics

        self._local.busy = True
        try:
            import torch

            with torch.no_grad():
                try:
                    described = statistics.describe(tensor)
                except (NotImplementedError, RuntimeError):  # a tensor without values: of a trace, of vmap, on meta
                    self._unseen += 1
                    return
                array = _array(statistics.dense(tensor)) if self.options.tensors else None
        finally:
            self._local.busy = False
        with self._lock:
            self._order += 1
            record = {
                "order": self._order,
                "step": self._step,
                "phase": phase,
                "name": name,
                "item": item,
                "call": call,
                "dtype": described.dtype,
                "shape": described.shape,
                "device": described.device,
                "numbers": described.numbers,
                "bad": described.bad,
                **facts,
            }
            self._open().add(record, array)
            self._recorded.add(self._step)

    def _open(self) -> RecordFile:
        if self._file is None:
            import torch

            options = self.options.to_dict()
            header = {"role": run_role(), "size": _size(), "torch": torch.__version__, "options": options}
            self._file = RecordFile(Path(self.options.path), self._name, header, self.options.limit * 1_000_000)
            at_end(self._finish)
        return self._file

    def _finish(self) -> None:
        """Write the last line, once."""
        file, self._file, self._off = self._file, None, True
        if file is None:
            return
        from patchcore_torch.recording.applied import applied_patches

        steps = sorted(self._recorded)
        file.end({"steps": steps, "unseen": self._unseen, "patches": applied_patches()})
        if file.full:
            print_message(
                f"the recording reached {self.options.limit} MB in step {steps[-1]} and is not complete; name fewer "
                "steps with --record-steps, or raise --record-limit"
            )
        if self._name in ("main", "rank0"):
            print_message(f"recorded {_steps_text(steps)} in {file.path}; patchcore compare reads it")


def _rank() -> Optional[int]:
    """Return the rank of this process: of its process group, else of its launcher; ``None`` for one without ranks."""
    distributed = _distributed()
    if distributed is not None:
        return int(distributed.get_rank()) if distributed.get_world_size() > 1 else None
    return None if rank_variable() is None else process_rank()


def _size() -> int:
    """Return the number of ranks: of the process group, else as the launcher counts them; 1 if neither is known."""
    distributed = _distributed()
    if distributed is not None:
        return int(distributed.get_world_size())
    return parse_decimal(os.environ.get("WORLD_SIZE", ""), MOST_RANKS) or 1


def _distributed() -> Any:
    """Return ``torch.distributed`` if this process has a process group, else ``None``."""
    distributed: Any = sys.modules.get("torch.distributed")
    found = distributed is not None and distributed.is_available() and distributed.is_initialized()
    return distributed if found else None


def _steps_text(steps: list[int]) -> str:
    return f"step {steps[0]}" if len(steps) == 1 else f"steps {', '.join(map(str, steps))}"


def _tensors(value: Any, name: str) -> Any:
    from patchcore_torch.recording.statistics import tensors_in

    if isinstance(value, tuple) and len(value) == 1:
        value = value[0]
    return tensors_in(value, name)


def _class_of(value: Any) -> str:
    return f"{type(value).__module__}:{type(value).__qualname__}"


def _array(tensor: Any) -> Any:
    import torch

    if tensor.dtype == torch.bfloat16:
        tensor = tensor.float()  # numpy has none
    return tensor.resolve_conj().resolve_neg().cpu().numpy()


def _place() -> str:
    """Return where the call stands that is being recorded: the innermost frame that is not torch's."""
    frame: Optional[FrameType] = sys._getframe(1)
    while frame is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        file = frame.f_code.co_filename
        if package not in _PASSED and not file.startswith("<"):
            return f"{_relative(file)}:{frame.f_lineno} in {frame.f_code.co_name}"
        frame = frame.f_back
    return ""


def _relative(file: str) -> str:
    for folder in (os.getcwd(), *_SITE_PACKAGES):
        if file.startswith(folder + os.sep):
            return file[len(folder) + 1 :]
    return file
