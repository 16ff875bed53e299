"""The classes (API 2.0) and functions (API 1.0) of the predefined patches, made from the table."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Optional

from mx_driving_compat.predefined.changes import Predefined
from mx_driving_compat.predefined.table import TABLE, Entry
from mx_driving_compat.versions import is_mmcv_v1x

__all__ = [
    "ALL",
    "DEFAULT",
    "InternalFormat",
    "TransferToNpu",
    "by_legacy_name",
    "function_of",
    "patch_of",
    "public_names",
    "torch_npu_transferred",
]


class _OfMmcv1(Predefined):
    @staticmethod
    def precheck() -> bool:
        """Return whether mmcv is 1.x."""
        return is_mmcv_v1x()


class _Stream(_OfMmcv1):
    @classmethod
    def scatter_forward(cls, target_gpus: list[int], input_: Any) -> tuple[Any, ...]:
        """Copy a batch to devices, as ``Scatter.forward`` does once this patch is applied.

        Args:
            target_gpus: numbers of the devices, ``[-1]`` for the CPU.
            input_: a tensor, or a list of tensors and lists.
        """
        change = cls.change_of("mmcv.parallel._functions.Scatter.forward")
        if change.runtime_check is None or change.runtime_check(target_gpus, input_):
            copies = change.replacement(target_gpus, input_)
        else:
            copies = importlib.import_module("mmcv.parallel._functions").scatter(input_, target_gpus, None)
        return tuple(copies) if isinstance(copies, (list, tuple)) else (copies,)


class _DDP(_OfMmcv1):
    @staticmethod
    def ddp_forward(self: Any, *inputs: Any, **kwargs: Any) -> Any:
        """Run the model of an ``MMDistributedDataParallel``, as its ``_run_ddp_forward`` does with newer torch.

        Args:
            self: the wrapped model.
            inputs, kwargs: arguments of the model.
        """
        change = _CLASSES["DDP"].change_of("mmcv.parallel.distributed.MMDistributedDataParallel._run_ddp_forward")
        return change.replacement(self, *inputs, **kwargs)


class _Early(Predefined):
    apply_before_collect = True


class _ResNetFP16(Predefined):
    conflicts_with = ["resnet_maxpool"]


#: The classes that have more than the table says.
_BASES: Mapping[str, type[Predefined]] = {
    "Stream": _Stream,
    "DDP": _DDP,
    "NumpyCompat": _Early,
    "CollectionsCompat": _Early,
    "ResNetFP16": _ResNetFP16,
}


class TransferToNpu(Predefined):
    """The further effect of ``import mx_driving``: calls for CUDA use the NPU, and torch.compile understands them."""

    name = "transfer_to_npu"
    legacy_name = "transfer_to_npu"
    target_module = "torch"
    provided_by = ("compile", "transfer_to_npu")
    distribution = "torch-npu-patches"


class InternalFormat(Predefined):
    """True if torch_npu may keep tensors in private formats."""

    name = "allow_internal_format"
    legacy_name = "allow_internal_format"
    target_module = "torch_npu"
    provided_by = ("internal_format",)
    distribution = "torch-npu-patches"


def torch_npu_transferred() -> bool:
    """Return whether torch_npu's own ``transfer_to_npu`` was imported; ours must not be applied on top of it."""
    return "torch_npu.contrib.transfer_to_npu" in sys.modules


def by_legacy_name() -> dict[str, type[Predefined]]:
    """Return the predefined patches by their names of API 1.0."""
    return {patch.legacy_name: patch for patch in ALL}


def public_names(module: str) -> dict[str, Any]:
    """Return the classes and functions of one module of ``mx_driving.patcher``, such as ``"mmcv_patch"``, by name."""
    return dict(_named(entry for entry in TABLE if entry.module == module))


def patch_of(function: Any) -> Optional[type[Predefined]]:
    """Return the predefined patch of a function of API 1.0: of that very function, not of one with its name."""
    try:
        return _CLASS_OF.get(function)
    except TypeError:  # not hashable
        return None


def function_of(patch: type[Predefined]) -> Callable[..., None]:
    """Return the function of API 1.0 that applies a predefined patch.

    Raises:
        KeyError: there is none.
    """
    return _FUNCTIONS[patch.__name__]


def _named(entries: Iterator[Entry]) -> Iterator[tuple[str, Any]]:
    for entry in entries:
        for name in (entry.class_name, *entry.aliases):
            yield name, _CLASSES[entry.class_name]
        if entry.function:
            yield entry.function, _FUNCTIONS[entry.class_name]


def _make_class(entry: Entry) -> type[Predefined]:
    attributes = {
        "__doc__": entry.summary,
        "__module__": f"mx_driving_compat.patcher.{entry.module}",  # where pickle finds it
        "name": entry.name,
        "legacy_name": entry.function or entry.name,
        "target_module": entry.library,
        "provided_by": entry.legacy_names or (entry.name,),
        "distribution": entry.distribution,
    }
    bases = (_BASES.get(entry.class_name, Predefined),)
    return types.new_class(entry.class_name, bases, exec_body=lambda space: space.update(attributes))


def _make_function(entry: Entry, patch: type[Predefined]) -> Callable[..., None]:
    """Return the function of API 1.0, for ``Patch(function)``."""

    def function(module: Any = None, options: Optional[Mapping[str, Any]] = None) -> None:
        patch.apply_all(options)

    function.__name__ = function.__qualname__ = entry.function
    function.__module__ = patch.__module__
    function.__doc__ = f"Apply the predefined patch {entry.name}; the module is looked up, whichever is given."
    return function


_CLASSES = {entry.class_name: _make_class(entry) for entry in TABLE}
_FUNCTIONS = {entry.class_name: _make_function(entry, _CLASSES[entry.class_name]) for entry in TABLE if entry.function}
_CLASS_OF: dict[Any, type[Predefined]] = {function: _CLASSES[name] for name, function in _FUNCTIONS.items()}

#: The predefined patches of API 2.0, and those of them that are applied by default, each in its order.
ALL: list[type[Predefined]] = [_CLASSES[entry.class_name] for entry in TABLE if not entry.part_of]
DEFAULT: list[type[Predefined]] = [
    _CLASSES[entry.class_name] for entry in TABLE if entry.default and not entry.on_request and not entry.part_of
]
