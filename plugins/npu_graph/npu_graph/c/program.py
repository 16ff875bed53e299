"""From operations to one C function: decides which of them share a loop, which values have memory, and how long."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from importlib import resources
from typing import Any, Optional, Union

import torch

from npu_graph.c.loops import Block, Fold, Index, Map, View, loops, places
from npu_graph.c.memory import Buffer, Root, contiguous, elements
from npu_graph.c.nests import Member, Nest
from npu_graph.c.printing import C_TYPES, same, size
from npu_graph.c.reading import Reader, Tracer, Writer
from npu_graph.c.rows import Rows, joined
from npu_graph.operations.subgraph import Operand, Operation, Output, Subgraph
from npu_graph.operations.values import expression

__all__ = ["Program"]

aten = torch.ops.aten

Value = Union[Buffer, Map, None, tuple[Optional[Buffer], ...]]

#: Functions of each header, by which it is included, for each type it is used with; later ones use earlier ones.
_HEADERS = {"matrices.h": ("matrix_products",), "convolution.h": ("convolve", "spread", "weigh")}
#: Around these: products and sums in one rounding, which :mod:`npu_graph.c.toolchain` rules out elsewhere.
_CONTRACTED = """
#ifdef __clang__
#pragma clang fp contract(fast)
#else
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")
#endif
{}
#ifdef __clang__
#pragma clang fp contract(off)
#else
#pragma GCC pop_options
#endif
"""
#: Operations in a chain that has no memory in between: each takes several calls of Python to write.
_DEEPEST = 32
#: Views of all elements in the same order, where these lie row by row.
_SAME_ELEMENTS = {aten.view.default, aten._unsafe_view.default, aten.alias.default, aten.unsqueeze.default}
_SAME_ELEMENTS |= {aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims}
_WORD = re.compile(r"\w+")


class Program:
    """One C function for a subgraph.

    Element-wise operations go into the first nest of loops over their shape that comes after all they read; values
    read at the same place of the same nest stay in registers.

    Args:
        subgraph: whose conversions return maps, views and blocks.
    """

    def __init__(self, subgraph: Subgraph) -> None:
        self.values: dict[str, Value] = {}
        self.nests: dict[str, Nest] = {}
        self._subgraph = subgraph
        self._steps: list[Union[Nest, str]] = []
        self._roots: list[Root] = []
        self._counter = 0
        self._direct: dict[str, int] = {}
        self._folded: set[str] = set()
        self._stored: dict[str, Buffer] = {}
        self._place()

    def unique(self, stem: str) -> str:
        """Return a unique name."""
        self._counter += 1
        return f"{stem}{self._counter}"

    # --- placement ----------------------------------------------------------------------------------------------------

    def _place(self) -> None:
        subgraph = self._subgraph
        for operand in subgraph.inputs:
            if operand.is_tensor:
                root = Root(f"b_{operand}", operand.dtype, 0, is_given=True)
                self.values[operand.name] = _buffer(root, operand.value)
        writable = [
            (n, output.operand) for n, output in enumerate(subgraph.outputs) if 0 not in output.operand.value.stride()
        ]
        for number, operand in writable:
            self._direct.setdefault(operand.name, number)
        for number, operand in writable:
            self._direct.setdefault(self._seen_as(operand), number)
        made = {operation.name: operation.convert() for operation in subgraph.operations if not operation.is_item}
        uses = Counter(operand.name for operation in subgraph.operations for operand in operation.operands)
        uses.update(output.operand.name for output in subgraph.outputs)
        folds = {operand.name for each in made.values() if isinstance(each, Block) for operand in each.folds}
        folds |= {each.operand.name for each in made.values() if isinstance(each, Fold)}
        depths = {name: 1 for name in folds if uses[name] == 1}
        for operation in reversed(subgraph.operations):  # and operations that only those read, element by element
            depth = depths.get(operation.name, _DEEPEST)
            if depth < _DEEPEST and torch.Tag.pointwise in getattr(operation.target, "tags", ()):
                for operand in operation.operands:
                    if operand.is_tensor and uses[operand.name] == 1 and _have_one_shape(operand, operation):
                        depths[operand.name] = depth + 1
        self._folded = set(depths)
        for operation in subgraph.operations:
            if operation.is_item:
                several = self.values[operation.arguments["self"].name]
                assert isinstance(several, tuple)
                self.values[operation.name] = several[operation.arguments["index"]]
            else:
                self.values[operation.name] = self._add(operation, made[operation.name])
        for number, output in enumerate(subgraph.outputs):
            self._put_out(number, output)

    def _seen_as(self, output: Operand) -> str:
        """The name of the value to compute in the memory of an output: itself, or the value that it is a view of."""
        makers = {operation.name: operation for operation in self._subgraph.operations}
        name, stride = output.name, contiguous(output.shape)
        if all(map(same, output.value.stride(), stride)):
            while name in makers and makers[name].target in _SAME_ELEMENTS:
                name = makers[name].operands[0].name
        return name if name in makers else output.name

    def _add(self, operation: Operation, made: Union[Map, View, Fold, Block]) -> Value:
        if isinstance(made, Map):
            is_read_only_by_one = made.is_cheap or operation.name in self._folded
            return made if is_read_only_by_one else self._compute(operation.name, operation.value, made)
        if isinstance(made, Fold):
            return self._fold(operation, made)
        if isinstance(made, View):
            buffer = self._located(made.operand)
            arranged = made.arrange(buffer) or made.arrange(self.copied(buffer))
            assert arranged is not None, f"{operation} arranges what lies row by row"
            return arranged
        results = self._results(operation)
        text = made.write(Writer(self), results)
        for result in results:
            if result is not None:
                result.root.step, result.root.is_needed = len(self._steps), True
        self._steps.append(text)
        return tuple(results) if isinstance(operation.value, (list, tuple)) else results[0]

    def _results(self, operation: Operation) -> list[Optional[Buffer]]:
        if isinstance(operation.value, torch.Tensor):
            return [self._result(operation.name, operation.value, row_major=True)]
        names = {
            item.arguments["index"]: item.name
            for item in self._subgraph.operations
            if item.is_item and item.arguments["self"].name == operation.name
        }
        return [
            self._result(names.get(number, f"{operation.name}_{number}"), value, row_major=True)
            if isinstance(value, torch.Tensor)
            else None
            for number, value in enumerate(operation.value)
        ]

    def _result(self, name: str, value: torch.Tensor, row_major: bool = False) -> Buffer:
        """Memory for a result: that of the output that it is, or of its own."""
        number = self._direct.get(name)
        if number is not None:
            root = Root(f"out{number}", value.dtype, 0, is_given=True)
            if self._subgraph.outputs[number].operand.name != name:  # but a view
                return Buffer(root, tuple(map(expression, value.shape)), contiguous(value.shape))
            given = _buffer(root, value)
            if given.is_contiguous or not row_major:
                return given
        return self.memory(f"b_{name}", value.dtype, value.shape)

    def memory(self, name: str, dtype: torch.dtype, shape: Sequence[Any]) -> Buffer:
        """Return new memory, which lies row by row."""
        root = Root(name, dtype, elements(shape))
        self._roots.append(root)
        return Buffer(root, tuple(map(expression, shape)), contiguous(shape))

    def _compute(self, name: str, value: torch.Tensor, made: Map) -> Buffer:
        """Have a map computed, in the first loops over its shape that come late enough."""
        buffer = self._result(name, value)
        trial = Tracer(self, places(buffer.shape), shape=buffer.shape)
        made.element(trial, places(buffer.shape))
        self.nests[name] = self._nest_from(trial.after, buffer.shape)
        self._take(self.nests[name], Member(name, made, buffer))
        return buffer

    def _fold(self, operation: Operation, fold: Fold) -> Buffer:
        """Have elements folded, in the first loops over them that come late enough."""
        result = self._result(operation.name, operation.value, row_major=True)
        shape = tuple(map(expression, fold.operand.shape))
        trial = Tracer(self, places(shape), shape=shape)
        fold.element(trial, places(shape))
        kept = [d for d in range(len(shape)) if d not in fold.gone]
        strides = [result.stride[d] for d in kept] if len(result.shape) == len(shape) else result.stride
        member = Member(operation.name, fold, result.arranged([shape[d] for d in kept], strides))
        self._take(self._nest_from(trial.after, shape, fold.gone), member)
        return result

    def _nest_from(self, after: int, shape: tuple[Any, ...], gone: tuple[int, ...] = ()) -> Nest:
        """The first loops over a shape after all that is read, or after the last block; new ones if there are none.

        A value that is read late is not computed earlier than needed, because it would take memory until then.
        """
        recent = next((step + 1 for step in range(len(self._steps) - 1, -1, -1) if self._is_block(step)), 0)
        for number in [*([after] if 0 <= after < recent else []), *range(max(after, recent), len(self._steps))]:
            step = self._steps[number]
            if isinstance(step, Nest) and step.has_room(shape, gone):
                return step
        nest = Nest(shape, len(self._steps))
        self._steps.append(nest)
        return nest

    def _is_block(self, step: int) -> bool:
        return isinstance(self._steps[step], str)

    def _take(self, nest: Nest, member: Member) -> None:
        member.buffer.root.step = nest.step
        nest.members.append(member)
        if isinstance(member.made, Fold):
            nest.gone = member.made.gone

    def in_memory(self, operand: Operand) -> Buffer:
        """Return the memory of a value for an operation that reads memory; a value without memory gets some."""
        buffer = self._located(operand)
        buffer.root.is_needed = True
        return buffer

    def _located(self, operand: Operand) -> Buffer:
        value = self.values[operand.name]
        if isinstance(value, Map):  # and one it stays for those that read its elements, some of them earlier
            if operand.name not in self._stored:
                self._stored[operand.name] = self._compute(operand.name, operand.value, value)
            value = self._stored[operand.name]
        assert isinstance(value, Buffer)
        return value

    def copied(self, buffer: Buffer) -> Buffer:
        """Return a copy that lies row by row."""
        copy = self.memory(self.unique("copy"), buffer.dtype, buffer.shape)
        copy.root.step, copy.root.is_needed, buffer.root.is_needed = len(self._steps), True, True
        index = places(buffer.shape)
        self._steps.append(loops(buffer.shape, index, [f"{copy.at(index)} = {buffer.at(index)};"], len(index)))
        return copy

    def _put_out(self, number: int, output: Output) -> None:
        operand = output.operand
        value = self.values[operand.name]
        if isinstance(value, Buffer) and value.root.name == f"out{number}":
            return
        tensor = operand.value
        alone = [1 if stride == 0 else n for n, stride in zip(tensor.shape, tensor.stride())]
        target = _buffer(Root(f"out{number}", tensor.dtype, 0, is_given=True), tensor)

        def body(reader: Reader, index: Index) -> str:
            return f"{target.at(index)} = {reader.read(operand, index)};"

        self._steps.append(Writer(self).loops(alone, body))

    # --- source -------------------------------------------------------------------------------------------------------

    def source(self, compiler: str) -> str:
        """Return the source; ``compiler`` is named in it, which makes it part of the key of the kernel."""
        for nest in self._nests():
            nest.trace(self)
        self._fold_where_made()
        readers: dict[str, set[Nest]] = {}
        for nest in self._nests():
            for read in nest.reads:
                readers.setdefault(read.buffer.root.name, set()).add(nest)
        steps = joined(self._steps)
        bodies = [step if isinstance(step, str) else step.text(self, readers) for step in steps]
        words = [set(_WORD.findall(body)) for body in bodies]
        roots = {root.name: root for root in self._roots if any(root.name in each for each in words)}
        lives = {name: [number for number, each in enumerate(words) if name in each] for name in roots}
        lines = [f"{C_TYPES[root.dtype]} *restrict {name} = 0;" for name, root in roots.items()]
        for number, body in enumerate(bodies):
            for name, root in roots.items():
                if lives[name][0] == number:
                    room = f"sizeof *{name} * ({size(root.count)} + 1)"  # for nothing, malloc may return nothing
                    lines.append(f"if (!({name} = malloc({room}))) goto no_memory;")
            lines.append(body)
            lines += [f"free({name}); {name} = 0;" for name in roots if lives[name][-1] == number]
        free = "".join(f" free({name});" for name in roots)
        end = ["return out_of_range ? 2 : 0;"]
        if any("no_memory" in line for line in lines):
            end += [f"no_memory:{free}", "return 1;"]
        head = "int kernel(void *const *tensors, const int64_t *integers, const double *reals) {"
        whole = [head, *self._unpacked(), "volatile int out_of_range = 0;", *lines, *end, "}"]
        return "\n".join([f"// {compiler}", *_headers(set().union(*words)), *whole, *self._layout(), ""])

    def _nests(self) -> list[Nest]:
        return [step for step in self._steps if isinstance(step, Nest)]

    def _fold_where_made(self) -> None:
        """Have nests that fold in tiles also compute the elements of the nest before, so that these need no memory."""
        steps = [step.nests if isinstance(step, Rows) else [] for step in joined(self._steps)]
        for here, following in zip(steps, steps[1:]):
            if len(here) != 1 or len(following) != 1:  # each row of several is worked on while it is in the cache
                continue
            (before,), (nest,) = here, following
            both = nest.with_elements(before)
            if both is None:
                continue
            names = [member.name for member in before.members]
            self.nests.update(dict.fromkeys(names, both))
            both.trace(self)
            if {read.buffer.root.name for read in both.reads} & {member.buffer.root.name for member in before.members}:
                self.nests.update(dict.fromkeys(names, before))  # it reads values that other iterations compute
                continue
            self._steps[self._steps.index(nest)] = both
            self._steps.remove(before)

    def _unpacked(self) -> list[str]:
        lines, tensors, numbers = [], 0, 0
        for operand in self._subgraph.inputs:
            if operand.is_tensor:
                lines.append(f"const {C_TYPES[operand.dtype]} *restrict b_{operand} = tensors[{tensors}];")
                tensors += 1
                continue
            is_real = isinstance(operand.value, (float, torch.SymFloat))
            kind, array = ("double", "reals") if is_real else ("int64_t", "integers")
            lines.append(f"const {kind} n_{operand} = {array}[{numbers}];")
            numbers += 1
        lines += self._symbols()
        for number, output in enumerate(self._subgraph.outputs):
            kind = C_TYPES[output.operand.dtype]
            lines.append(f"{kind} *restrict out{number} = tensors[{tensors + number}];")
        return lines

    def _symbols(self) -> list[str]:
        start = sum(not operand.is_tensor for operand in self._subgraph.inputs)
        names = self._subgraph.symbol_names
        return [f"const int64_t {name} = integers[{start + number}];" for number, name in enumerate(names)]

    def _layout(self) -> list[str]:
        """The function that says for which strides of its inputs the kernel is."""
        strides = [n for operand in self._subgraph.inputs if operand.is_tensor for n in operand.value.stride()]
        lines = [f"strides[{number}] = {size(stride)};" for number, stride in enumerate(strides)]
        return ["void layout(const int64_t *integers, int64_t *strides) {", *self._symbols(), *lines, "}"]


def _buffer(root: Root, tensor: torch.Tensor) -> Buffer:
    return Buffer(root, tuple(map(expression, tensor.shape)), tuple(map(expression, tensor.stride())))


def _have_one_shape(operand: Operand, operation: Operation) -> bool:
    return len(operand.shape) == len(operation.shape) and all(map(same, operand.shape, operation.shape))


def _headers(words: set[str]) -> list[str]:
    lines = [f"#include <{name}.h>" for name in ("math", "stdbool", "stdint", "stdlib", "string")]
    lines.append(_read("scalar.h"))
    for kind in C_TYPES.values():
        used = [name for name, functions in _HEADERS.items() if any(f"{each}_{kind}" in words for each in functions)]
        last = max((list(_HEADERS).index(name) for name in used), default=-1)
        lines += [_CONTRACTED.format(_read(name).replace("TYPE", kind)) for name in list(_HEADERS)[: last + 1]]
    return lines


def _read(name: str) -> str:
    return resources.files("npu_graph.c").joinpath("include").joinpath(name).read_text(encoding="utf-8")
