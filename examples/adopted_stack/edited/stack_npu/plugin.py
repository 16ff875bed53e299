"""What ``patchcore adopt stack-npu --split`` wrote, with ``when=``, ``phase=`` and two wrappers added by hand.

The second layer of the attention is gone: it was a mistake of the stack, which ``adopt`` showed.
"""

from argparse import Namespace
from typing import Any, Callable

import patchcore as pc


def fused_norm(arguments: Namespace) -> bool:
    """Decide as the feature of that name does."""
    return bool(arguments.use_fused_norm)


def fused_activation(arguments: Namespace) -> bool:
    """Decide as the feature of that name does."""
    return bool(arguments.use_fused_swiglu)


def scaled_attention(arguments: Namespace) -> bool:
    """Decide as the feature of that name does."""
    return bool(arguments.scale_attention)


TINYSPEED_OPS_NORM = pc.Patch(
    "stack.tinyspeed_ops_norm",
    [pc.Replace("tinymegatron.core.fusions:rms_norm", "tinyspeed.ops.norm:fused_rms_norm")],
    when=fused_norm,
)
TINYSPEED_OPS_SWIGLU = pc.Patch(
    "stack.tinyspeed_ops_swiglu",
    [pc.Replace("tinymegatron.core.fusions:swiglu", "tinyspeed.ops.swiglu:fused_swiglu")],
    when=fused_activation,
)
TINYSPEED_OPS_ATTENTION = pc.Patch(
    "stack.tinyspeed_ops_attention",
    [
        pc.Replace(
            "tinymegatron.core.fusions:attention_scores",
            factory="tinyspeed.ops.attention:scaled_scores_wrapper",
        ),
    ],
    when=scaled_attention,
)
CLUSTERKIT_LOGS = pc.Patch(
    "stack.clusterkit_logs",
    [
        pc.Replace("tinymegatron.core.fusions:attention_scores", factory="clusterkit.logs:finite_scores"),
        pc.Replace("tinymegatron.training:log", factory="clusterkit.logs:with_rank"),
    ],
    after=["stack.tinyspeed_ops_attention"],  # in this order the program applied them
    phase="stack.training",
)


@pc.wrap("tinymegatron.arguments:parse_args", name="stack.arguments")
def configured(original: Callable[[], Namespace]) -> Namespace:
    """Hand the parsed arguments to the patches that wait for them."""
    arguments = original()
    pc.configure(arguments)
    return arguments


@pc.wrap("tinymegatron.training:pretrain", name="stack.phases")
def begun(original: Callable[[], Any]) -> Any:
    """Reach the phase in which the training runs."""
    pc.reach("stack.training")
    return original()


@pc.hookimpl
def register_phases() -> list[str]:
    """Name the phases, in order."""
    return ["stack.training"]


@pc.hookimpl
def register_patches() -> tuple[Any, ...]:
    """Return the patches, in the order in which they apply."""
    return (
        *(configured, begun),
        *(TINYSPEED_OPS_NORM, TINYSPEED_OPS_SWIGLU, TINYSPEED_OPS_ATTENTION, CLUSTERKIT_LOGS),
    )
