"""The patches that mark: torch's modules, functions and backward passes, its collectives, and apex.

All answer to the name ``markers``, and none is applied unless it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import patchcore as pc
from patchcore.plugin import ABSENT, Slot, SlotChange, find_module, find_slot
from torch_markers import ranges as markers
from torch_markers.options import MarkerOptions

__all__ = ["APEX_MARKERS", "DISTRIBUTED_MARKERS", "MARKERS", "TORCH_MARKERS", "make_patches"]

_HOOKS = "torch:nn.modules.module._global_forward"
_KEY = '["torch_markers"]'


class _Force(Slot):
    """The marking in force, as a slot.

    Args:
        name: how it is shown.
    """

    __slots__ = ()

    def __init__(self, name: str) -> None:
        from torch_markers import marking

        super().__init__(marking, "active", name)

    def read(self) -> Any:
        return ABSENT if self.owner.active is None else self.owner.active

    def write(self, raw: Any) -> None:
        from torch_markers import functions

        marking = None if raw is ABSENT else raw
        self.owner.put_in_force(marking)
        markers.use(marking)
        if marking is not None and marking.functions:
            functions.enter()
        else:
            functions.leave()


class Mark(SlotChange):
    """Make ranges from now on, by the hooks and wrappers that other changes install.

    Args:
        options: of the patch, as users have given them; looked at when it is applied.
    """

    options: Mapping[str, Any]

    makes_product = True

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(target=pc.Target.parse("torch:overrides.TorchFunctionMode"), options=options)

    @property
    def kind(self) -> str:
        return "mark"

    @property
    def source(self) -> Any:
        return pc.Target.parse("torch_markers.functions:FunctionMarkers")

    def claims(self, target: pc.Target) -> tuple[pc.Target, ...]:
        return ()  # the class is not changed, an object of one of its own is entered

    def find_slot(self, target: pc.Target, module: Any) -> Slot:
        return _Force(str(target))

    def build(self, below: Any, slot: Slot) -> Any:
        from torch_markers.backends import make_backend
        from torch_markers.marking import Marking

        options = MarkerOptions.of(self.options)
        return Marking(options, make_backend(options))


class WrapIfThere(pc.Wrap):
    """Wrap a function that not every version has."""

    def find_slot(self, target: pc.Target, module: Any) -> Slot:
        return find_slot(target, module, may_be_absent=True)

    @property
    def kind(self) -> str:
        return "wrap"

    def build(self, below: Any, slot: Slot) -> Any:
        if below is ABSENT:
            return pc.Skip(f"this version has no {slot.name}")
        return super().build(below, slot)


#: The functions of ``torch.distributed`` that talk to other processes (torch 2.13).
COLLECTIVES = (
    *("all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_object", "all_gather_single"),
    *("all_reduce", "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier", "batch_isend_irecv"),
    *("broadcast", "broadcast_object_list", "gather", "gather_object", "irecv", "isend", "monitored_barrier", "recv"),
    *("recv_object_list", "reduce", "reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor", "scatter"),
    *("scatter_object_list", "send", "send_object_list"),
)

#: The modules of apex 0.1 that are marked, and how: of those in C all functions, of the packages in Python ``forward``,
#: ``backward`` and ``step`` of the classes.
APEX: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("amp_C", "fused_adam_cuda", "fused_lamb_cuda", "fused_layer_norm_cuda", "distributed_lamb_cuda"),
            *("xentropy_cuda", "mlp_cuda"),
        ),
        "mark_functions",
    ),
    **dict.fromkeys(
        (
            *("apex.amp", "apex.contrib.groupbn", "apex.contrib.multihead_attn", "apex.contrib.optimizers"),
            *("apex.contrib.sparsity", "apex.contrib.xentropy", "apex.fp16_utils", "apex.mlp"),
            *("apex.multi_tensor_apply", "apex.optimizers", "apex.parallel"),
        ),
        "mark_classes",
    ),
}


def _torch_patch(options: Mapping[str, Any], *, wanted: bool) -> pc.Patch:
    shown = {name: options.get(name, getattr(MarkerOptions, name)) for name in MarkerOptions.names()}
    return pc.Patch(
        markers.OPTIONS,
        [
            Mark({**shown, **options}),
            pc.Replace(f"{_HOOKS}_pre_hooks{_KEY}", "torch_markers.modules:before_forward", create=True),
            pc.Replace(f"{_HOOKS}_hooks{_KEY}", "torch_markers.modules:after_forward", create=True),
            pc.Replace(f"{_HOOKS}_hooks_always_called{_KEY}", True, create=True),
            pc.Wrap("torch:autograd.graph._engine_run_backward", "torch_markers.marking:run_backward"),
        ],
        summary="ranges for profilers around modules, functions and backward passes of torch",
        requires="torch>=2.4",
        legacy_names=[markers.NAME],
        options=shown,
        default=wanted,
    )


def _distributed_patch(*, wanted: bool) -> pc.Patch:
    return pc.Patch(
        "torch.markers.distributed",
        [WrapIfThere(f"torch:distributed.distributed_c10d.{name}", markers.mark_call) for name in COLLECTIVES],
        summary="ranges around the collectives of torch.distributed",
        requires="torch>=2.4",
        after=["transfer_to_npu"],  # which adapts some under other names: a range has the name that is called
        legacy_names=[markers.NAME],
        default=wanted,
    )


def _apex_patch(modules: Mapping[str, str], *, wanted: bool) -> pc.Patch:
    return pc.Patch(
        "torch.markers.apex",
        [pc.Call(f"torch_markers.apex:{function}", module=module) for module, function in modules.items()],
        summary="ranges around the functions of apex, and forward, backward and step of its classes",
        needs="apex",
        legacy_names=[markers.NAME],
        default=wanted,
    )


TORCH_MARKERS = _torch_patch({}, wanted=False)
DISTRIBUTED_MARKERS = _distributed_patch(wanted=False)
APEX_MARKERS = _apex_patch(APEX, wanted=False)

#: The patches under no options, which nobody has asked for.
MARKERS = (TORCH_MARKERS, DISTRIBUTED_MARKERS, APEX_MARKERS)


def make_patches(options: Mapping[str, Any], *, wanted: bool) -> tuple[pc.Patch, ...]:
    """Return the patches.

    Args:
        options: as :class:`MarkerOptions` has them, not checked yet.
        wanted: whether they are applied by default.
    """
    # which modules there are depends on how apex was built
    there = {module: function for module, function in APEX.items() if find_module(module)}
    apex = _apex_patch(there or APEX, wanted=wanted)
    return (_torch_patch(options, wanted=wanted), _distributed_patch(wanted=wanted), apex)
