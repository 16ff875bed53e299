"""Scopes: the calls around the present operation, in the forward pass and, by the same tree, in the backward pass.

Each call of a module, and each call of a function, is a scope whose parent is the call of the module around it. Nodes
of the autograd graph are told which scope made them; before the engine runs such a node, the ranges that the scope is
not inside of are closed, and those that are missing are opened. The engine runs the nodes that one thread has made in
the reverse order (by sequence number), so that the ranges of the backward pass nest as those of the forward pass did.

Imported when markers are applied: needs torch.
"""

from __future__ import annotations

import functools
import threading
from types import FrameType
from typing import Any, Optional, Protocol

import torch

from torch_markers import private_torch
from torch_markers.text import BACKWARD

__all__ = ["BackwardPass", "Scope", "thread"]

_is_compiling = torch.compiler.is_compiling
_task_id = private_torch.current_graph_task_id
_Tensor = torch.Tensor
_FEW = 8  # so many tensors of a result are looked at


class Marking(Protocol):
    """Makes ranges: a :class:`torch_markers.marking.Marking`."""

    on: bool
    backward: bool

    def open(self, text: str) -> Any:
        """Begin a range; return the value for :meth:`close`."""

    def close(self, token: Any) -> None:
        """End a range."""


class Scope:
    """One call.

    Args:
        marking: makes its range.
        parent: the call of a module around it.
        text: of its range, empty for a call that has none.
        call: of a module: its facts.
    """

    __slots__ = ("call", "callers", "depth", "entered", "frame", "marking", "parent", "text", "token")

    def __init__(self, marking: Marking, parent: Optional[Scope], text: str, call: Any = None) -> None:
        self.marking = marking
        self.parent = parent
        self.text = text
        self.call = call
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.token: Any = None
        self.frame: Optional[FrameType] = None  # in which a module is called; not kept beyond the call
        self.callers = ""
        self.entered = False  # whether this thread has got the mode for the time of this call

    def enter(self, gradients: Any) -> None:
        """Make this the scope of the backward pass; a hook that is called before a node of the graph runs."""
        if _is_compiling() or not self.marking.on:
            return
        passes = thread.passes
        current = passes[-1] if passes and passes[-1].task is None else _pass_of_node(self.marking)
        current.switch(self)

    def claim(self, result: Any) -> None:
        """Give this scope to the node that made ``result``, or the first tensors in it.

        A node is told once: a function that returns its argument has not made it, and the result of a module was made
        by a function in it. To be called where torch dispatches to no Python.
        """
        if isinstance(result, _Tensor):
            node = result.grad_fn
            if node is not None:
                number = node._sequence_nr()
                here = thread
                if number > here.claimed:
                    here.claimed = number
                    node.register_prehook(self.enter)
        elif isinstance(result, (tuple, list)):
            for item in result[:_FEW]:
                self.claim(item)
        elif isinstance(result, dict):
            for item in list(dict.values(result))[:_FEW]:
                self.claim(item)


class BackwardPass:
    """The ranges that a backward pass has open in one thread.

    Args:
        marking: makes them.
        task: the engine's number of the pass, in a thread of the engine's own; ``None`` where ``backward()`` is called.
    """

    __slots__ = ("_marking", "_open", "task")

    def __init__(self, marking: Marking, task: Optional[int] = None) -> None:
        self.task = task
        self._marking = marking
        self._open: list[tuple[Scope, Any]] = []

    def switch(self, scope: Optional[Scope]) -> None:
        """Close the ranges that are not around ``scope``, and open those that are missing."""
        opened = self._open
        if opened and scope is not None:  # mostly another call in the same module
            last, token = opened[-1]
            if last is scope:
                return
            if last.parent is scope.parent:
                if last.text:
                    self._marking.close(token)
                opened[-1] = (scope, self._marking.open(BACKWARD + scope.text[1:]) if scope.text else None)
                return
        missing = []
        while scope is not None and not (scope.depth < len(opened) and opened[scope.depth][0] is scope):
            missing.append(scope)
            scope = scope.parent
        kept = 0 if scope is None else scope.depth + 1
        while len(opened) > kept:
            ended, token = opened.pop()
            if ended.text:
                self._marking.close(token)
        for one in reversed(missing):
            opened.append((one, self._marking.open(BACKWARD + one.text[1:]) if one.text else None))


class _Thread(threading.local):
    """The scopes that this thread is inside of.

    ``scope`` is the innermost call of a module, ``claimed`` the number of the last node that was told its scope.
    """

    scope: Optional[Scope] = None
    claimed = -1

    def __init__(self) -> None:
        self.passes: list[BackwardPass] = []


thread = _Thread()


def _pass_of_node(marking: Marking) -> BackwardPass:
    """Return the backward pass that runs a node in this thread now, which is one of the engine's own."""
    passes = thread.passes
    task = _task_id()
    if passes:
        if passes[-1].task == task:
            return passes[-1]
        passes.pop().switch(None)  # it has raised, which nobody has told this thread
    started = BackwardPass(marking, task)
    passes.append(started)
    private_torch.execution_engine.queue_callback(functools.partial(_end, started))
    return started


def _end(ended: BackwardPass) -> None:
    """At the end of a backward pass, in the thread that has run its last node."""
    if ended in thread.passes:
        thread.passes.remove(ended)
        ended.switch(None)
