"""The arguments of a training, as Megatron keeps them: parsed once, for the whole process."""

import argparse
import functools


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--use-fused-norm", action="store_true")
    parser.add_argument("--use-fused-swiglu", action="store_true")
    parser.add_argument("--scale-attention", action="store_true")
    return parser.parse_args()


@functools.cache
def get_args() -> argparse.Namespace:
    """Return the arguments of this process."""
    return parse_args()
