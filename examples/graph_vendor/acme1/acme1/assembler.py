"""The assembler: ``python -m acme1.assembler kernel.acme kernel.bin``; with one file, a listing of that program.

buffer x                ; the host hands over words
number n                ; and a number
y = mul(exp(x), 2.5)    ; an instruction, of which the operands may be instructions
z = move(y, 0, 8 * n, 4)  ; sizes may be expressions, for the scalar unit
return y, z
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from acme1.instructions import COUNTS, SCALARS, Instruction, Operand, decode, encode

OPERATORS = {ast.Add: "iadd", ast.Sub: "isub", ast.Mult: "imul", ast.FloorDiv: "idiv", ast.Mod: "imod"}


class AssemblerError(Exception):
    """A line is wrong; the message says which, and what about it."""


class Assembler:
    """Assembles one program."""

    def __init__(self) -> None:
        self.program: list[Instruction] = []
        self._names = {"inf": Operand("f", float("inf")), "nan": Operand("f", float("nan"))}
        self._sizes: dict[str, Operand] = {}
        self._used = {"b": 0, "r": 0}

    def line(self, text: str) -> None:
        """Assemble one line.

        Raises:
            AssemblerError: the line is wrong.
        """
        text = text.partition(";")[0].strip()
        if not text:
            return
        word, _, rest = text.partition(" ")
        if word in ("buffer", "number"):
            self._names[rest.strip()] = self._emit("arg", kind=word.replace("number", "r")[0])
        elif word == "return":
            operands = [self._operand(_parsed(name)) for name in rest.split(",")]
            self.program.append(Instruction("ret", tuple(operands)))
        else:
            name, equals, expression = text.partition("=")
            if not equals or not name.strip().isidentifier():
                raise AssemblerError(f"expected 'name = instruction(...)', got {text!r}")
            self._names[name.strip()] = self._operand(_parsed(expression))

    def _operand(self, given: ast.expr) -> Operand:
        if isinstance(given, ast.Call) and isinstance(given.func, ast.Name):
            return self._call(given.func.id, given.args)
        if isinstance(given, ast.Name):
            if given.id not in self._names:
                raise AssemblerError(f"no patch, legacy name, plugin or target is called {given.id!r}")
            return self._names[given.id]
        if isinstance(given, ast.Constant) and isinstance(given.value, (int, float)):
            return Operand("f" if isinstance(given.value, float) else "i", given.value)
        if isinstance(given, ast.UnaryOp) and isinstance(given.op, ast.USub):
            inner = self._operand(given.operand)
            if inner.kind in "if":
                return inner._replace(value=-inner.value)
            return self._scalar("isub", Operand("i", 0), inner)
        if isinstance(given, ast.BinOp) and type(given.op) in OPERATORS:
            return self._scalar(OPERATORS[type(given.op)], self._operand(given.left), self._operand(given.right))
        raise AssemblerError(f"the scalar unit adds, subtracts, multiplies and divides, got {ast.unparse(given)}")

    def _call(self, opcode: str, operands: list[ast.expr]) -> Operand:
        if opcode not in COUNTS:
            raise AssemblerError(f"the Acme 1 has no instruction {opcode!r}")
        if len(operands) not in COUNTS[opcode]:
            raise AssemblerError(
                f"{opcode} takes {' or '.join(map(str, COUNTS[opcode]))} operands, got {len(operands)}"
            )
        return self._emit(opcode, *map(self._operand, operands))

    def _scalar(self, opcode: str, one: Operand, other: Operand) -> Operand:
        """The result of integers, or a register with it, the same one for whoever asks for the same."""
        if one.kind == other.kind == "i":
            return Operand("i", SCALARS[opcode](one.value, other.value))
        key = f"{opcode} {one}, {other}"
        if key not in self._sizes:
            self._sizes[key] = self._emit(opcode, one, other, kind="r")
        return self._sizes[key]

    def _emit(self, opcode: str, *operands: Operand, kind: str = "b") -> Operand:
        result = Operand(kind, self._used[kind])
        self._used[kind] += 1
        self.program.append(Instruction(opcode, (result, *operands)))
        return result


def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise AssemblerError(f"cannot be read: {text.strip()!r}") from error


def assemble(text: str) -> bytes:
    """Return the program for a text.

    Raises:
        AssemblerError: a line is wrong.
    """
    assembler = Assembler()
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            assembler.line(line)
        except AssemblerError as error:
            raise AssemblerError(f"line {number}: {error}") from error
    return encode(assembler.program)


def main(source: str, target: str = "") -> None:
    """Assemble ``source`` to ``target``; with one argument, list a program."""
    if not target:
        print(*decode(Path(source).read_bytes()), sep="\n")
        return
    try:
        Path(target).write_bytes(assemble(Path(source).read_text()))
    except AssemblerError as error:
        sys.exit(f"{Path(source).name}: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
