"""The instruction set of the Acme 1, and programs as files.

A program is a header, then instructions: an opcode, the number of operands, and the operands, each a letter and eight
bytes. ``b`` is a buffer: a row of 32-bit floats in the memory of the processor. ``r`` is a register of the scalar unit,
``i`` an integer, ``f`` a float.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Union

MAGIC = b"ACME\x01"

UNARY = ("neg", "abs", "exp", "fexp", "log", "sqrt", "rsqrt", "tanh", "sigmoid")  # fexp: fast, within 3 percent of exp
BINARY = ("add", "sub", "mul", "div", "max", "min", "lt", "le", "eq")
TERNARY = ("fma", "select")  # a * b + c; b where a is not 0, else c
#: Of integers, in the scalar unit.
SCALARS = {
    "iadd": operator.add,
    "isub": operator.sub,
    "imul": operator.mul,
    "idiv": operator.floordiv,
    "imod": operator.mod,
}
#: How many operands an instruction takes. A buffer or a number will do in arithmetic, of buffers of one length.
COUNTS = {
    **dict.fromkeys(UNARY, (1,)),
    **dict.fromkeys(BINARY, (2,)),
    **dict.fromkeys(TERNARY, (3,)),
    "fill": (2,),  # value, count
    "move": (2, 4, 6, 8, 10),  # source, offset, up to four sizes, as many strides: copies from there, row by row
    "sum": (3,),  # of each row: source, rows, columns
    "peak": (3,),  # the largest of each row
    "mm": (6,),  # [batch, n, k], [batch, k, m]; batch, n, k, m
}
#: ``arg`` names what the host hands over, in order; ``ret`` is what it gets back.
OPCODES = ("arg", "ret", *SCALARS, *COUNTS)


class Operand(NamedTuple):
    """A letter, and what the eight bytes mean."""

    kind: str
    value: Union[int, float]

    def __str__(self) -> str:
        return str(self.value) if self.kind in "if" else f"{self.kind}{self.value}"


class Instruction(NamedTuple):
    """An opcode and its operands, the result first."""

    opcode: str
    operands: tuple[Operand, ...]

    def __str__(self) -> str:
        return f"{self.opcode:8}{', '.join(map(str, self.operands))}"


def encode(program: Sequence[Instruction]) -> bytes:
    """Return a program as the bytes of a file."""
    parts = [MAGIC, struct.pack("<I", len(program))]
    for opcode, operands in program:
        parts.append(struct.pack("<BB", OPCODES.index(opcode), len(operands)))
        parts += [struct.pack("<cd" if kind == "f" else "<cq", kind.encode(), value) for kind, value in operands]
    return b"".join(parts)


def decode(data: bytes) -> list[Instruction]:
    """Return the instructions of a file.

    Raises:
        ValueError: it is not a whole program for this processor.
    """
    if not data.startswith(MAGIC):
        raise ValueError("not a program for the Acme 1")
    try:
        return list(_instructions(data))
    except (struct.error, IndexError) as error:
        raise ValueError(f"a damaged program: {error}") from error


def _instructions(data: bytes) -> Iterator[Instruction]:
    (count,) = struct.unpack_from("<I", data, len(MAGIC))
    place = len(MAGIC) + 4
    for _ in range(count):
        opcode, length = struct.unpack_from("<BB", data, place)
        place += 2
        operands = []
        for _ in range(length):
            kind = data[place : place + 1].decode()
            operands.append(Operand(kind, *struct.unpack_from("<d" if kind == "f" else "<q", data, place + 1)))
            place += 9
        yield Instruction(OPCODES[opcode], tuple(operands))
