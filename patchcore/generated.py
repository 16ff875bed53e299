"""Functions generated with the parameters of others, as :mod:`dataclasses` does: the fastest way to pass a call on."""

from __future__ import annotations

import inspect
import linecache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from patchcore.counting import Counter

__all__ = ["counting_function", "dispatcher"]


def dispatcher(
    original: FunctionType, chosen: Any, predicate: Any, counter: Optional[Counter] = None
) -> Optional[FunctionType]:
    """Return a dispatcher with the parameters of ``original``; ``None`` where that would not do.

    Args:
        original: called where the predicate is false.
        chosen: called where it is true.
        predicate: decides.
        counter: counts which of the two is called.
    """
    parameters = _Parameters(original)
    if not (parameters.are_taken_by(chosen) and parameters.are_taken_by(predicate)):
        return None
    scope = {"_pc_predicate": predicate, "_pc_replacement": chosen, "_pc_original": original}
    count_chosen = count_left = ""
    if counter is not None:
        scope["_pc_count_chosen"], scope["_pc_count_left"] = counter.ticks
        count_chosen, count_left = "            _pc_count_chosen()\n", "        _pc_count_left()\n"
    body = (
        f"        if _pc_predicate({parameters.call}):\n"
        f"{count_chosen}"
        f"            return _pc_replacement({parameters.call})\n"
        f"{count_left}"
        f"        return _pc_original({parameters.call})\n"
    )
    return _generate("dispatcher", original, parameters, "def", body, scope)


def counting_function(function: FunctionType, counter: Counter) -> Optional[FunctionType]:
    """Return a function with the parameters of ``function`` that counts and calls it; ``None`` where that cannot be.

    One of a coroutine or generator function is one, too, and counts when what it returns begins to run.
    """
    parameters = _Parameters(function)
    flags = function.__code__.co_flags
    keyword, result = "def", f"_pc_function({parameters.call})"
    if flags & inspect.CO_COROUTINE:
        keyword, result = "async def", f"await {result}"
    elif flags & inspect.CO_GENERATOR:
        result = f"yield from {result}"
    body = f"        _pc_count()\n        return ({result})\n"
    scope = {"_pc_function": function, "_pc_count": counter.replacement.tick}
    return _generate("counter", function, parameters, keyword, body, scope)


class _Parameters:
    """The parameters of a function, as the text of its header and of a call that passes them all on."""

    def __init__(self, function: FunctionType) -> None:
        code: CodeType = function.__code__
        count = code.co_argcount
        names = code.co_varnames
        self.positional = names[:count]
        self.keyword_only = names[count : count + code.co_kwonlyargcount]
        rest = list(names[count + code.co_kwonlyargcount :])
        self.args = rest.pop(0) if code.co_flags & inspect.CO_VARARGS else None
        self.kwargs = rest.pop(0) if code.co_flags & inspect.CO_VARKEYWORDS else None
        self.header = ", ".join(self._header(function, code.co_posonlyargcount))
        self.call = ", ".join(
            [
                *self.positional,
                *([f"*{self.args}"] if self.args else ()),
                *(f"{name}={name}" for name in self.keyword_only),
                *([f"**{self.kwargs}"] if self.kwargs else ()),
            ]
        )

    def _header(self, function: FunctionType, positional_only: int) -> list[str]:
        # the values of the defaults are set on the finished function
        first_default = len(self.positional) - len(function.__defaults__ or ())
        header = [name if i < first_default else f"{name}=None" for i, name in enumerate(self.positional)]
        if positional_only:
            header.insert(positional_only, "/")
        if self.args or self.keyword_only:
            header.append(f"*{self.args or ''}")
        defaults = function.__kwdefaults__ or {}
        header += (f"{name}=None" if name in defaults else name for name in self.keyword_only)
        return header + ([f"**{self.kwargs}"] if self.kwargs else [])

    def are_taken_by(self, function: Any) -> bool:
        """Tell whether ``function`` can be called with all of them, as far as its signature is known."""
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            return False
        kinds = {parameter.kind for parameter in signature.parameters.values()}
        if (self.args and inspect.Parameter.VAR_POSITIONAL not in kinds) or (
            self.kwargs and inspect.Parameter.VAR_KEYWORD not in kinds
        ):
            return False
        try:
            signature.bind(*self.positional, **dict.fromkeys(self.keyword_only))
        except TypeError:
            return False
        return True


def _generate(
    what: str, like: FunctionType, parameters: _Parameters, keyword: str, body: str, scope: dict[str, Any]
) -> Optional[FunctionType]:
    """Write and compile a function with the parameters of ``like``; ``None`` where its names do not allow that.

    Args:
        what: what it is, a word for tracebacks.
        like: whose parameters and defaults it gets.
        parameters: of ``like``.
        keyword: ``def`` or ``async def``.
        body: its lines.
        scope: the objects behind the names in ``body``, each of which begins with ``_pc_``.
    """
    if "_pc_" in parameters.header:
        return None
    name = f"_pc_{what}"
    function = f"    {keyword} {name}({parameters.header}):\n{body}    return {name}\n"
    source = f"def _pc_make({', '.join(scope)}):\n{function}"
    filename = f"<patchcore {what} for {like.__module__}:{like.__qualname__}>"
    namespace: dict[str, Any] = {}
    try:
        exec(compile(source, filename, "exec"), namespace)  # text made from parameter names only
    except SyntaxError:  # names that no source has, of a function made by a program
        return None
    # (size, no mtime, lines, name): tracebacks and inspect.getsource show the function; linecache never checks it
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    made: FunctionType = namespace["_pc_make"](**scope)
    made.__defaults__ = like.__defaults__
    made.__kwdefaults__ = dict(like.__kwdefaults__) if like.__kwdefaults__ else None
    return made
