"""Names of torch.cuda and torch.profiler that point at those of torch.npu."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import patchcore as pc
from patchcore.plugin import Change
from torch_npu_patches.transfer_to_npu import audit, tables
from torch_npu_patches.transfer_to_npu.audit import Place
from torch_npu_patches.transfer_to_npu.changes import Adapt, Count, Counterpart, Extend, counterpart
from torch_npu_patches.transfer_to_npu.devices import NPU, npu_activities
from torch_npu_patches.transfer_to_npu.wrappers import (
    Argument,
    counting,
    rewriting,
    rewriting_class,
    under_the_name,
)
from torch_npu_patches.wrapping import mark_wrapper

__all__ = [
    "DeviceProperties",
    "autocast_state",
    "changes",
    "counted",
    "make_constant_types",
    "process_group_nccl",
    "profiler",
    "without_counterpart",
]

#: The result of ``get_device_capability`` where torch_npu has none: no feature of a GPU can be read from it.
NO_CAPABILITY = (0, 0)

#: Names of torch.cuda that point at something other than the same name of torch.npu.
_ADAPTED = frozenset(
    ("default_generators", "get_device_capability", "get_device_properties", "is_available", "is_bf16_supported")
)


def changes(group: str) -> list[Change]:
    """Return the changes of the names of torch.cuda.

    A function or class is that of torch.npu with its calls counted, and with the device rewritten where it takes one.
    A type of tensors or storages is the object of torch.npu itself, because torch compares these by identity. A name
    that torch.npu does not have is unchanged, and the record of the change says so.
    """
    found: list[Change] = []
    for name, arguments in tables.CUDA.items():
        target, npu = f"torch:cuda.{name}", pc.Target.parse(f"torch_npu:npu.{name}")
        is_type = name.endswith(("Tensor", "Storage"))
        found.append(Counterpart(target, npu) if is_type else _counted(group, target, npu, arguments))
    for cuda, npu_name in tables.CUDA_RENAMED.items():
        found.append(_counted(group, f"torch:cuda.{cuda}", pc.Target.parse(f"torch_npu:npu.{npu_name}"), ()))
    found += (Adapt(f"torch:_C.{name}", make, create=True) for name, make in _MEMORY.items())
    found += (_of_bad_fork("cuda._is_in_bad_fork"), _of_bad_fork("_C._cuda_isInBadFork", create=True))
    found.append(_adapted("torch:cuda.get_device_capability", "npu.get_device_capability", _never_none(group)))
    found.append(_adapted("torch:cuda.get_device_properties", "npu.get_device_properties", _with_numbers(group)))
    found.append(Adapt("torch:cuda.default_generators", _make_default_generators))
    found.append(_adapted("torch:cuda.is_bf16_supported", "npu.is_bf16_supported", _without_arguments(group)))
    found.append(_adapted("torch:cuda.is_available", "npu.is_available", _answer(group)))
    return found


def counted(group: str, paths: Iterable[str]) -> list[Change]:
    """Return the changes that count the calls of functions of torch and keep their behaviour.

    Args:
        group: name of the patch.
        paths: of the functions, in torch.
    """

    def change(target: pc.Target) -> Count:
        return Count(str(target), lambda original: counting(original, (), group, target, got=NPU))

    return [change(pc.Target.parse(f"torch:{path}")) for path in paths]


def without_counterpart() -> list[str]:
    """Return the names of ``torch.cuda.__all__`` that stay as they are, because torch.npu has nothing for them.

    Calling them fails as it does in any torch that was built without CUDA. Submodules are not listed: their names
    count under the names of torch.cuda that they are exported as. Imports torch and torch_npu.
    """
    import torch
    import torch_npu

    handled = {*tables.CUDA, *tables.CUDA_RENAMED, *_ADAPTED}
    names = [name for name in torch.cuda.__all__ if not inspect.ismodule(getattr(torch.cuda, name, None))]
    return sorted(
        name for name in names if name not in handled or not hasattr(torch_npu.npu, tables.CUDA_RENAMED.get(name, name))
    )


def autocast_state(group: str) -> list[Change]:
    """Return the changes of the functions whose default, or only, device is CUDA: ``torch.is_autocast_enabled()``."""
    return [
        _for_npu(group, "torch:is_autocast_enabled", 0),
        _for_npu(group, "torch:set_autocast_enabled", 1),
        _gpu_dtype(group, "torch:get_autocast_gpu_dtype", "get_autocast_dtype"),
        _gpu_dtype(group, "torch:set_autocast_gpu_dtype", "set_autocast_dtype"),
    ]


def process_group_nccl() -> Change:
    """Return the change that gives ``torch.distributed.ProcessGroupNCCL``, for its options, where torch has none."""
    npu = pc.Target.parse("torch_npu:_C._distributed_c10d.ProcessGroupHCCL")
    return Adapt("torch:distributed.ProcessGroupNCCL", lambda original: counterpart(npu), create=True)


def profiler(group: str) -> list[Change]:
    """Return the changes of torch.profiler. ``ProfilerActivity`` stays: its members are told by name, CUDA as NPU."""
    found: list[Change] = [
        Counterpart(f"torch:profiler.{name}", f"torch_npu:profiler.{name}") for name in tables.PROFILER
    ]
    return [*found, Adapt("torch:profiler.profile", _profile(group))]


def _make_snapshot(original: Any) -> Any:
    npu = counterpart(pc.Target.parse("torch_npu:npu.memory._snapshot"))
    return npu if isinstance(npu, pc.Skip) else lambda *_: npu()


def _make_record_memory_history(original: Any) -> Any:
    npu = counterpart(pc.Target.parse("torch_npu:npu.memory._record_memory_history"))
    if isinstance(npu, pc.Skip):
        return npu

    def record_memory_history(
        enabled: Any, context: Any = "all", stacks: str = "all", max_entries: Any = None, *newer: Any
    ) -> None:
        npu(enabled, context, stacks, **({} if max_entries is None else {"max_entries": max_entries}))

    return record_memory_history


def _make_record_memory_history_legacy(original: Any) -> Any:
    npu = counterpart(pc.Target.parse("torch_npu:npu.memory._record_memory_history"))
    if isinstance(npu, pc.Skip):
        return npu
    return lambda enabled, *_: npu("all" if enabled else None)


#: What torch.cuda.memory's ``_snapshot``, ``_dump_snapshot`` and ``_record_memory_history`` call, which torch's own
#: documentation tells users to call although they are private. torch has it only where it was built with CUDA.
_MEMORY = {
    "_cuda_memorySnapshot": _make_snapshot,
    "_cuda_record_memory_history": _make_record_memory_history,
    "_cuda_record_memory_history_legacy": _make_record_memory_history_legacy,
}


def _of_bad_fork(path: str, *, create: bool = False) -> Extend:
    """Return the change of a function by which torch and launchers find out whether a forked process may use devices.

    Lightning calls the function of torch.cuda, accelerate that of torch._C, which only a torch with CUDA has.
    """

    def make(original: Any) -> Any:
        found = counterpart(pc.Target.parse("torch_npu:npu._is_in_bad_fork"))

        def is_in_bad_fork() -> bool:
            return bool(found())

        return found if isinstance(found, pc.Skip) else is_in_bad_fork

    return Extend(f"torch:{path}", make, create=create)


def _counted(group: str, target: str, npu: pc.Target, arguments: tuple[Argument, ...]) -> Adapt:
    parsed = pc.Target.parse(target)

    def make(original: Any) -> Any:
        found = counterpart(npu)
        if isinstance(found, pc.Skip):
            return found
        if isinstance(found, type):
            return rewriting_class(found, arguments, group, parsed, count_calls=True)
        return counting(found, arguments, group, parsed)

    return Adapt(target, make)


def _adapted(target: str, npu: str, adapt: Callable[[Any, pc.Target], Any]) -> Adapt:
    def make(original: Any) -> Any:
        found = counterpart(pc.Target.parse(f"torch_npu:{npu}"))
        return found if isinstance(found, pc.Skip) else adapt(found, pc.Target.parse(target))

    return Adapt(target, make)


def _never_none(group: str) -> Callable[[Any, pc.Target], Any]:
    def adapt(found: Any, target: pc.Target) -> Any:
        def get_device_capability(device: Any = None) -> tuple[int, int]:
            return found(device) or NO_CAPABILITY

        counted = under_the_name(get_device_capability, found, target)
        return counting(counted, (Argument("device", position=0),), group, target)

    return adapt


def _with_numbers(group: str) -> Callable[[Any, pc.Target], Any]:
    """Return the factory of ``get_device_properties``: torch and programs compare ``major`` with a number."""

    def adapt(found: Any, target: pc.Target) -> Any:
        return counting(get_device_properties, (Argument("device", position=0),), group, target)

    return adapt


def get_device_properties(device: Any = None) -> DeviceProperties:
    """Return the properties of an NPU. One function for good: torch.compile knows functions by identity."""
    from torch_npu import npu

    return DeviceProperties(npu.get_device_properties(device))


class DeviceProperties:
    """The result of ``torch.cuda.get_device_properties()``: the properties of an NPU in torch_npu.

    ``major`` and ``minor`` are 0, below any minimum that is looked for, and ``multi_processor_count`` is the number of
    vector cores, as in releases of torch_npu that have one. Other numbers that only GPUs have stay ``None``.

    Args:
        found: the result of torch.npu.
    """

    def __init__(self, found: Any) -> None:
        values = {name: getattr(found, name) for name in dir(found) if not name.startswith("__")}
        processors = values.get("vector_core_num") or values.get("cube_core_num") or 0
        for name, number in (("major", 0), ("minor", 0), ("multi_processor_count", processors)):
            if values.get(name) is None:
                values[name] = number
        self.__dict__.update(values)

    def __repr__(self) -> str:
        return f"_CudaDeviceProperties({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


def make_constant_types(original: Iterable[type]) -> set[type]:
    """Return the types of values that torch.compile takes for constants, with :class:`DeviceProperties`."""
    return {*original, DeviceProperties}


class _DefaultGenerators(Sequence[Any]):
    """The generators of the NPUs. torch_npu has them once an NPU is initialised, which looking at one does here."""

    def __len__(self) -> int:
        from torch_npu import npu

        return int(npu.device_count())

    def __getitem__(self, index: Any) -> Any:
        from torch_npu import npu

        npu.init()
        return npu.default_generators[index]


def _make_default_generators(original: Any) -> Sequence[Any]:
    return _DefaultGenerators()


def _without_arguments(group: str) -> Callable[[Any, pc.Target], Any]:
    def adapt(found: Any, target: pc.Target) -> Any:
        def is_bf16_supported(including_emulation: bool = True) -> bool:
            return bool(found())

        return counting(under_the_name(is_bf16_supported, found, target), (), group, target)

    return adapt


def _answer(group: str) -> Callable[[Any, pc.Target], Any]:
    """Return the factory of a function whose results are counted too: they show whether an NPU was visible."""

    def adapt(found: Any, target: pc.Target) -> Any:
        note_call = audit.counter_of(Place(group, str(target), "")).note_call

        def is_available() -> bool:
            answer: bool = found()
            note_call(answer, answer)
            return answer

        mark_wrapper(is_available, found)
        return under_the_name(is_available, found, target)

    return adapt


def _for_npu(group: str, target: str, values: int) -> Adapt:
    """A function of ``(device_type, *values)``, or of ``values`` alone, which means CUDA."""
    parsed = pc.Target.parse(target)

    def make(original: Any) -> Any:
        rewritten = rewriting(original, (Argument("device_type", position=0),), group, parsed)
        note_call = audit.counter_of(Place(group, str(parsed), "")).note_call

        def autocast_state(*args: Any, **kwargs: Any) -> Any:
            if len(args) + len(kwargs) == values:
                note_call(None, NPU)
                return original(NPU, *args, **kwargs)
            return rewritten(*args, **kwargs)

        return under_the_name(autocast_state, original, parsed)

    return Adapt(target, make)


def _gpu_dtype(group: str, target: str, generic: str) -> Adapt:
    """A function about the GPU's autocast type, by the ``generic`` function of torch that takes any device."""

    def make(original: Any) -> Any:
        import torch

        function = getattr(torch, generic)
        note_call = audit.counter_of(Place(group, target, "")).note_call

        def gpu_dtype(*dtype: Any) -> Any:
            note_call(None, NPU)
            return function(NPU, *dtype)

        return under_the_name(gpu_dtype, original, pc.Target.parse(target))

    return Adapt(target, make)


def _profile(group: str) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        npu = counterpart(pc.Target.parse("torch_npu:profiler"))
        if isinstance(npu, pc.Skip):
            return npu

        def translate(value: Any) -> Any:
            names = npu_activities(value)
            if names is None:
                return None
            kind = list if any(activity.name == "CUDA" for activity in value) else audit.WithoutCuda
            return kind(getattr(npu.ProfilerActivity, name) for name in names)

        target = pc.Target.parse("torch:profiler.profile")
        return rewriting_class(npu.profile, (Argument("activities", translate, 0),), group, target)

    return make
