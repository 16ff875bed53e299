"""The driver: memory of the processor, and programs that run there. Here it is also the processor."""

from __future__ import annotations

import math
from typing import Any, Union

import numpy as np

from acme1.instructions import SCALARS, Instruction, decode


class Buffer:
    """Words in the memory of the processor: 32-bit floats, nothing else. Made by :func:`upload`, or by a program."""

    def __init__(self, words: np.ndarray) -> None:
        self._words = words

    def __len__(self) -> int:
        return len(self._words)

    def download(self) -> np.ndarray:
        """Return a copy in the memory of the host."""
        return self._words.copy()


def upload(array: np.ndarray) -> Buffer:
    """Copy an array to the processor, row by row, as 32-bit floats."""
    return Buffer(np.array(array, dtype=np.float32).reshape(-1))


class Program:
    """A program that has been loaded.

    Args:
        data: what the assembler made.

    Raises:
        ValueError: it is no program.
    """

    def __init__(self, data: bytes) -> None:
        self._instructions = decode(data)

    def __call__(self, *arguments: Union[Buffer, int, float]) -> list[Buffer]:
        """Run it; return the buffers that it returns.

        Args:
            arguments: for each ``arg``, in order.
        """
        given = iter(arguments)
        table: dict[Any, Any] = {}
        for instruction in self._instructions:
            name, *operands = instruction.operands or [None]
            if instruction.opcode == "ret":
                return [Buffer(table[operand]) for operand in instruction.operands]
            if instruction.opcode == "arg":
                value = next(given)
                table[name] = value._words if isinstance(value, Buffer) else value
            else:
                values = [table[operand] if operand.kind in "br" else operand.value for operand in operands]
                with np.errstate(all="ignore"):
                    table[name] = _execute(instruction, values)
        return []


def _execute(instruction: Instruction, values: list[Any]) -> Any:
    opcode = instruction.opcode
    if opcode in SCALARS:
        return SCALARS[opcode](*values)
    if opcode in ARITHMETIC:
        words = [value if isinstance(value, np.ndarray) else np.float32(value) for value in values]
        return np.asarray(ARITHMETIC[opcode](*words), dtype=np.float32).reshape(-1)
    return OTHERS[opcode](*values)


def _fast_exp(x: np.ndarray) -> np.ndarray:
    """The whole part of the binary logarithm makes the exponent, the rest the mantissa: a line for a curve."""
    bits = np.clip(x * np.float32(2**23 / math.log(2)) + np.float32(127 * 2**23 - 486411), 0, 255 * 2**23)
    return bits.astype(np.int32).view(np.float32)


def _fill(value: float, count: int) -> np.ndarray:
    return np.full(count, value, dtype=np.float32)


def _move(source: np.ndarray, offset: int, *layout: int) -> np.ndarray:
    shape, strides = layout[: len(layout) // 2], layout[len(layout) // 2 :]
    if 0 in shape:
        return source[:0]
    place = np.full(shape, offset)
    for dimension, (size, stride) in enumerate(zip(shape, strides)):
        steps = np.arange(size) * stride
        place += steps.reshape([-1 if each == dimension else 1 for each in range(len(shape))])
    return source[place.reshape(-1)]


def _sum(source: np.ndarray, rows: int, columns: int) -> np.ndarray:
    return source.reshape(rows, columns).sum(1)


def _peak(source: np.ndarray, rows: int, columns: int) -> np.ndarray:
    return source.reshape(rows, columns).max(1)


def _mm(one: np.ndarray, other: np.ndarray, batch: int, n: int, k: int, m: int) -> np.ndarray:
    return np.matmul(one.reshape(batch, n, k), other.reshape(batch, k, m)).reshape(-1)


ARITHMETIC = {
    "neg": np.negative,
    "abs": np.abs,
    "exp": np.exp,
    "fexp": _fast_exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "tanh": np.tanh,
    "sigmoid": lambda a: 1 / (1 + np.exp(-a)),
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "fma": lambda a, b, c: a * b + c,
    "select": lambda a, b, c: np.where(a != 0, b, c),
}
OTHERS = {"fill": _fill, "move": _move, "sum": _sum, "peak": _peak, "mm": _mm}
