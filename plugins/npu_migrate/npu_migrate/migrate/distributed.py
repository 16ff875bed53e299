"""A training script for one card as one for several: ``DistributedDataParallel``, one process for each card.

The function that makes the optimizer is taken for the one that trains. It is changed where its parts are told apart
with certainty: the model that the optimizer is for is moved to the device before, in the same function. Everything
else is reported with the lines to write.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Optional

import libcst as cst

from npu_migrate.migrate.names import Names
from npu_migrate.migrate.recording import Record
from npu_migrate.migrate.syntax import code, dotted, root

__all__ = ["make_distributed"]

_RULE = "distributed.script"
_RANK = "local_rank"
_ALREADY = (
    "torch.distributed.init_process_group",
    "torch.nn.parallel.DistributedDataParallel",
    "accelerate.Accelerator",
)
_LOADERS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
_MOVES = ("cuda", "npu", "to")
#: Members that DistributedDataParallel has as every module has them.
_OF_MODULES = frozenset(
    ("parameters", "named_parameters", "train", "eval", "zero_grad", "modules", "named_modules", "buffers", "training")
    + ("named_buffers", "requires_grad_", "forward", "register_forward_hook", "register_full_backward_hook", *_MOVES)
)
_OF_CHECKPOINTS = ("state_dict", "load_state_dict")
#: Functions that may be called by one rank alone.
_BY_ONE_RANK = frozenset(
    ("item", "tolist", "format", "len", "round", "float", "int", "str", "time", "mean", "sum", "print")
)


def make_distributed(record: Record, names: Names, devices: Iterable[cst.CSTNode]) -> bool:
    """Make the module train on several cards, if it is a script that trains on one; return whether it was changed.

    Args:
        record: of the module, whose tree still says CUDA.
        names: of the module.
        devices: texts of the module that are devices.
    """
    script = _Script(record, names)
    optimizers = list(script.optimizers())
    if not optimizers:
        return False
    done = [call for call in record.program.calls if script.name_of(call.func) in _ALREADY]
    if done:
        return False
    if len(optimizers) > 1:
        for call, _ in optimizers:
            record.note_review(call, _RULE, f"several optimizers; {script.manual('the model of each')}")
        return False
    call, model = optimizers[0]
    return script.convert(call, model, [*record.uses_npu, *devices, *script.loaders()])


class _Script:
    def __init__(self, record: Record, names: Names) -> None:
        self.record = record
        self.program = record.program
        self.names = names
        self.torch = next(
            (
                alias.evaluated_alias or "torch"
                for node in self.program.imports
                if isinstance(node, cst.Import) and self.program.outermost_function(node) is None
                for alias in node.names
                if dotted(alias.name) == "torch"
            ),
            "torch",
        )

    def name_of(self, node: cst.BaseExpression) -> str:
        meaning = self.names.meaning(node)
        return meaning.name if meaning is not None and meaning.sure else ""

    def manual(self, model: str) -> str:
        return (
            f'write: {_RANK} = int(os.environ["LOCAL_RANK"]); torch.npu.set_device({_RANK}); '
            'torch.distributed.init_process_group("hccl"); before anything is on the device, and wrap '
            f"{model} in torch.nn.parallel.DistributedDataParallel(..., device_ids=[{_RANK}]) after .npu()"
        )

    def optimizers(self) -> Iterator[tuple[cst.Call, str]]:
        """The calls that make optimizers of all parameters of a variable, and its name."""
        for call in self.program.calls:
            name = self.name_of(call.func)
            if not name.startswith("torch.optim.") or not name.rpartition(".")[2][:1].isupper() or not call.args:
                continue
            value = call.args[0].value
            if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
                owner = value.func.value
                if value.func.attr.value == "parameters" and isinstance(owner, cst.Name):
                    yield call, owner.value

    def loaders(self) -> Iterator[cst.Call]:
        """The calls that make data loaders; a sampler reads its rank when it is made."""
        return (call for call in self.program.calls if self.name_of(call.func) in _LOADERS)

    def convert(self, optimizer: cst.Call, model: str, uses: Sequence[cst.CSTNode]) -> bool:
        function = self.names.enclosing(optimizer, cst.FunctionDef, cst.Lambda)
        statement = self.program.statement(optimizer)
        body = self.statements(function)
        if isinstance(function, cst.Lambda) or body is None or not isinstance(statement, cst.SimpleStatementLine):
            self.record.note_review(
                optimizer, _RULE, f"the optimizer is not made in a statement of its own; {self.manual(model)}"
            )
            return False
        if not self.is_moved_before(function, statement, model):
            note = f"{model} is not moved to the device before, in the same function; {self.manual(model)}"
            self.record.note_review(optimizer, _RULE, note)
            return False
        if re.search(rf"\b{_RANK}\b", self.program.module.code):
            self.record.note_review(optimizer, _RULE, f"the name {_RANK} is in use already; {self.manual(model)}")
            return False
        self.set_up(body, statement, uses)
        wrap = f"{model} = {self.torch}.nn.parallel.DistributedDataParallel({model}, device_ids=[{_RANK}])"
        self.insert_before(statement, [wrap], statement)
        self.use_wrapped(function, statement, model)
        self.spread_data(function)
        self.guard(function)
        self.tear_down(function, body)
        return True

    # --- where things are ---------------------------------------------------------------------------------------------

    def statements(self, function: Optional[cst.FunctionDef]) -> Optional[Sequence[Any]]:
        if function is None:
            return self.program.module.body
        return function.body.body if isinstance(function.body, cst.IndentedBlock) else None

    def inside(self, node: cst.CSTNode, function: Optional[cst.FunctionDef]) -> bool:
        """True if a node is in a function and in none inside it; in the module and in no function."""
        return self.names.enclosing(node, cst.FunctionDef, cst.Lambda) is function

    def is_moved_before(self, function: Optional[cst.FunctionDef], statement: Any, model: str) -> bool:
        limit = self.program.position(statement)
        for call in self.program.calls:
            attribute = call.func
            if not isinstance(attribute, cst.Attribute) or attribute.attr.value not in _MOVES:
                continue
            if not self.inside(call, function) or self.program.position(call) >= limit:
                continue
            owner = root(attribute)
            line = self.program.parents.get(call)
            is_assigned = isinstance(line, cst.Assign) and any(dotted(t.target) == model for t in line.targets)
            if is_assigned or (owner is not None and owner.value == model and isinstance(line, cst.Expr)):
                return True
        return False

    # --- the changes --------------------------------------------------------------------------------------------------

    def insert_before(self, statement: Any, lines: Sequence[str], shown_at: Any) -> None:
        self.record.edits.before(statement, [_statement(line) for line in lines])
        self.record.note_change(shown_at, "", "; ".join(lines), _RULE)
        self.record.uses_npu.append(statement)

    def set_up(self, body: Sequence[Any], statement: Any, uses: Sequence[cst.CSTNode]) -> None:
        """Choose the card, and join the others, before the first line that uses a card."""
        lines = [
            f'{_RANK} = int(os.environ["LOCAL_RANK"])  # torchrun --nproc-per-node N',
            f"{self.torch}.npu.set_device({_RANK})",
            f'{self.torch}.distributed.init_process_group("hccl")',
        ]
        of_body = set(body)
        users = {next((node for node in self.program.ancestors(use) if node in of_body), None) for use in uses}
        first = next((line for line in body if line in users and not _is_definition(line)), statement)
        self.insert_before(first, lines, first)
        for name in ("os", self.torch):
            self.make_imported(name)

    def make_imported(self, name: str) -> None:
        outside = [
            node
            for node in self.program.imports
            if self.program.outermost_function(node) is None and not _is_future(node)
        ]
        bound = [
            alias.evaluated_alias or dotted(alias.name)
            for node in outside
            if isinstance(node, cst.Import)
            for alias in node.names
        ]
        if name not in bound:  # there are imports of torch, or there would be no optimizer
            self.insert_before(self.program.statement(outside[0]), [f"import {name}"], outside[0])

    def use_wrapped(self, function: Optional[cst.FunctionDef], statement: Any, model: str) -> None:
        """Behind the wrap, checkpoints are those of the model inside; other members are not there any more."""
        limit = self.program.position(statement)
        for chain in self.program.chains:
            node: Any = chain
            while isinstance(node.value, cst.Attribute):
                node = node.value
            if dotted(node.value) != model or not self.inside(node, function) or self.program.position(node) < limit:
                continue
            member = node.attr.value
            if member in _OF_CHECKPOINTS:
                self.record.edits.change(node, _through_module)
                self.record.note_change(
                    node, code(node), f"{model}.module.{member}", _RULE, "keeps the format of checkpoints"
                )
            elif member not in _OF_MODULES:
                note = f"DistributedDataParallel has no {member}: write {model}.module.{member}"
                self.record.note_review(node, _RULE, f"{note}; if it computes a loss, call {model}(...) instead")

    def spread_data(self, function: Optional[cst.FunctionDef]) -> None:
        for call in self.loaders():
            keywords = {argument.keyword.value: argument for argument in call.args if argument.keyword is not None}
            data = call.args[0].value if call.args and call.args[0].keyword is None else None
            if data is None and "dataset" in keywords:
                data = keywords["dataset"].value
            shuffle = keywords.get("shuffle")
            is_plain = not any(argument.star for argument in call.args) and not {"sampler", "batch_sampler"} & set(
                keywords
            )
            sampler = f"{self.torch}.utils.data.distributed.DistributedSampler"
            if shuffle is None or dotted(shuffle.value) != "True" or not is_plain:
                note = f"every rank reads all data: pass sampler={sampler}(..., shuffle=False), and reduce the results"
                self.record.note_review(call, _RULE, note)
                continue
            if not self.inside(call, function) or data is None or dotted(data) is None:
                self.record.note_review(call, _RULE, f"write: sampler={sampler}(<data>) in place of shuffle=True")
                continue
            made = f"{sampler}({dotted(data)})"
            self.record.edits.change(shuffle, partial(_with_sampler, sampler=cst.parse_expression(made)))
            after = f"sampler={made}"
            self.record.note_change(shuffle, code(shuffle).rstrip(", "), after, _RULE, "each rank reads a part")
            self.record.note_review(
                call, _RULE, "batch_size is now that of one rank; N ranks together read N times as much"
            )
            self.shuffle_epochs(call, function)

    def shuffle_epochs(self, call: cst.Call, function: Optional[cst.FunctionDef]) -> None:
        """``sampler.set_epoch`` in the loop over epochs; without it every epoch has the order of the first."""
        line = self.program.parents.get(call)
        loader = dotted(line.targets[0].target) if isinstance(line, cst.Assign) else None
        for name in self.program.loads if loader is not None and "." not in loader else ():
            if name.value != loader or not self.inside(name, function):
                continue
            loops = [
                node
                for node in self.program.ancestors(name)
                if isinstance(node, cst.For)
                and isinstance(node.target, cst.Name)
                and isinstance(node.iter, cst.Call)
                and dotted(node.iter.func) == "range"
                and isinstance(node.body, cst.IndentedBlock)
            ]
            if loops:
                loop: Any = loops[-1]
                self.insert_before(loop.body.body[0], [f"{loader}.sampler.set_epoch({loop.target.value})"], loop)
                return
        self.record.note_review(
            call, _RULE, f"write: {loader or '<loader>'}.sampler.set_epoch(epoch) at the start of every epoch"
        )

    def guard(self, function: Optional[cst.FunctionDef]) -> None:
        """Files are written, and lines printed, by rank 0."""
        for call in self.program.calls:
            name = self.name_of(call.func) or dotted(call.func)
            if name not in ("torch.save", "print"):
                continue
            line = self.program.parents.get(self.program.parents[call])
            is_statement = isinstance(self.program.parents[call], cst.Expr) and isinstance(
                line, cst.SimpleStatementLine
            )
            if not is_statement or not self.inside(call, function) or len(line.body) > 1:  # type: ignore[union-attr]
                if name == "torch.save":
                    self.record.note_review(
                        call, _RULE, f"every rank does this; write: if {self.torch}.distributed.get_rank() == 0:"
                    )
                continue
            if name == "torch.save" or self.may_be_left_out(call):
                self.record.edits.change(line, self.on_rank_0)
                self.record.note_change(call, code(call), "on rank 0 only", _RULE)

    def may_be_left_out(self, call: cst.Call) -> bool:
        """True if nothing in the arguments of a call needs the other ranks."""
        inner = (other for other in self.program.calls if other is not call and call in self.program.ancestors(other))
        return all(str(dotted(other.func) or code(other.func)).rpartition(".")[2] in _BY_ONE_RANK for other in inner)

    def on_rank_0(self, line: cst.SimpleStatementLine) -> cst.If:
        return cst.If(
            test=cst.parse_expression(f"{self.torch}.distributed.get_rank() == 0"),
            body=cst.IndentedBlock([line.with_changes(leading_lines=())]),
            leading_lines=line.leading_lines,
        )

    def tear_down(self, function: Optional[cst.FunctionDef], body: Sequence[Any]) -> None:
        line = f"{self.torch}.distributed.destroy_process_group()"
        last = body[-1]
        returns = _returns(function) if function is not None else 0
        is_return = isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[0], cst.Return)
        if returns == int(is_return):
            if is_return:
                self.insert_before(last, [line], last)
            else:
                self.record.edits.after(last, [_statement(line)])
                self.record.note_change(last, "", line, _RULE)
        else:
            self.record.note_review(last, _RULE, f"the function returns in several places; write: {line} before each")


def _statement(line: str) -> Any:
    return cst.parse_statement(line)


def _with_sampler(argument: cst.Arg, sampler: cst.BaseExpression) -> cst.Arg:
    return argument.with_changes(keyword=cst.Name("sampler"), value=sampler)


def _through_module(node: cst.Attribute) -> cst.Attribute:
    return node.with_changes(value=cst.Attribute(node.value, cst.Name("module")))


def _returns(function: cst.FunctionDef) -> int:
    """How many returns a function has, without those of functions inside it."""
    found = 0
    stack: list[cst.CSTNode] = [function.body]
    while stack:
        node = stack.pop()
        found += isinstance(node, cst.Return)
        if not isinstance(node, (cst.FunctionDef, cst.ClassDef, cst.Lambda)):
            stack += node.children
    return found


def _is_definition(line: Any) -> bool:
    return isinstance(line, (cst.FunctionDef, cst.ClassDef)) or (
        isinstance(line, cst.SimpleStatementLine) and isinstance(line.body[0], (cst.Import, cst.ImportFrom))
    )


def _is_future(node: Any) -> bool:
    return isinstance(node, cst.ImportFrom) and node.module is not None and dotted(node.module) == "__future__"
