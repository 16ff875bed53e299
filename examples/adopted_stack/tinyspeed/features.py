"""The features: each decides by the arguments whether it is needed, and registers its patches."""

from argparse import Namespace

from tinyspeed.ops.attention import scaled_scores_wrapper
from tinyspeed.ops.norm import fused_rms_norm
from tinyspeed.ops.swiglu import fused_swiglu
from tinyspeed.patch_utils import PatchesManager


def fused_norm(args: Namespace) -> None:
    """Replace the norm, with ``--use-fused-norm``."""
    if args.use_fused_norm:
        PatchesManager.register_patch("tinymegatron.core.fusions.rms_norm", fused_rms_norm)


def fused_activation(args: Namespace) -> None:
    """Replace the activation, with ``--use-fused-swiglu``."""
    if args.use_fused_swiglu:
        PatchesManager.register_patch("tinymegatron.core.fusions.swiglu", fused_swiglu)


def scaled_attention(args: Namespace) -> None:
    """Scale the scores, with ``--scale-attention``."""
    if args.scale_attention:
        PatchesManager.register_patch("tinymegatron.core.fusions.attention_scores", scaled_scores_wrapper)


def long_sequences(args: Namespace) -> None:
    """Scale the scores, too: nobody has noticed that another feature does."""
    if args.scale_attention:
        PatchesManager.register_patch("tinymegatron.core.fusions.attention_scores", scaled_scores_wrapper)


FEATURES = (fused_norm, fused_activation, scaled_attention, long_sequences)
