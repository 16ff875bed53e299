"""Pieces of assembly that conversions are made of. Tensors lie row by row in buffers."""

import re

import npu_graph


def is_arithmetic(shape):
    """Tell whether sizes are computed without functions, such as the larger one of two."""
    return not any(re.search(r"\w\(", npu_graph.size_source(number)) for number in shape)


def size(number):
    """Return a size as an expression for the scalar unit."""
    text = npu_graph.size_source(number)
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def sizes(shape):
    """Return sizes as expressions."""
    return [size(number) for number in shape]


def product(shape):
    """Return how many elements a shape has."""
    return " * ".join(sizes(shape)) or "1"


def strides(shape):
    """Return how far elements of each dimension are apart."""
    return [product(shape[dimension + 1 :]) for dimension in range(len(shape))]


def move(tensor, shape, steps, offset="0"):
    """Return the instruction that copies a tensor to another shape, ``steps`` apart."""
    return f"move({', '.join([str(tensor), offset, *sizes(shape), *steps])})"


def spread(operand, shape):
    """Return an operand in the shape of a result: nothing to do for numbers, and where it has that shape."""
    if not isinstance(operand, npu_graph.Operand) or not operand.is_tensor or sizes(operand.shape) == sizes(shape):
        return str(operand)
    missing = len(shape) - operand.ndim
    steps = ["0" if n == "1" else step for n, step in zip(sizes(operand.shape), strides(operand.shape))]
    return move(operand, shape, ["0"] * missing + steps)
