"""Functions generated with the parameters of others, as :mod:`dataclasses` does: the fastest way to pass a call on."""

from __future__ import annotations

import functools
import inspect
import linecache
import sys
import types
from keyword import iskeyword
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, Union

from patchcore.objects.modules import attribute

if TYPE_CHECKING:
    from patchcore.objects.counting import Counter

__all__ = [
    "Handover",
    "counting_function",
    "dispatcher",
    "of_kind",
    "passing_function",
    "signature_of",
    "wrapping_function",
]

#: How a library hands a call over to an argument: a function that is called with the arguments and returns true if it
#: does, and one that is called with the called function and the arguments, and returns the result. See the hook
#: ``register_handovers``.
Handover = tuple[Callable[..., bool], Callable[..., Any]]

#: Flags of functions whose body runs later, when their result is awaited or iterated over.
_PUT_OFF = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR

#: How no parameter of a generated function can begin: names of ours, and ``__debug__``, to which nothing is assigned.
_RESERVED = ("_pc_", "__debug__")

#: The default of a parameter of ours: the caller has passed no argument for it.
_NOTHING = type("NOTHING", (), {})

#: At most this many positional arguments have a parameter each, a *place*. Further ones are packed.
_PLACES = 4

#: ``yield from`` for asynchronous generators, which Python does not have (PEP 380 for PEP 525).
_DELEGATE = """\
        _pc_inner = ({call}).__aiter__()
        try:
            _pc_item = await _pc_inner.__anext__()
        except StopAsyncIteration:
            return
        while True:
            try:
                _pc_sent = yield _pc_item
            except GeneratorExit:
                if hasattr(_pc_inner, "aclose"):
                    await _pc_inner.aclose()
                raise
            except BaseException as _pc_error:
                if not hasattr(_pc_inner, "athrow"):
                    raise
                _pc_next = _pc_inner.athrow(_pc_error)
            else:
                _pc_next = _pc_inner.__anext__() if _pc_sent is None else _pc_inner.asend(_pc_sent)
            try:
                _pc_item = await _pc_next
            except StopAsyncIteration:
                return
"""


def of_kind(function: Any, original: Any, body_for: Optional[FunctionType] = None) -> Any:
    """Return ``function``, within a coroutine, generator or asynchronous generator function if ``original`` is one.

    Like the body of such an original, ``function`` runs when the result of the call is awaited or iterated over.

    Args:
        function: takes the arguments of ``original``; returns the object to await, or to iterate over.
        original: a callable.
        body_for: the function whose body it is to be; ``None`` for a function of its own.
    """
    flags = _flags(original)
    if not flags & _PUT_OFF:
        return function
    parameters = _parameters_of(original, body_for)
    keyword, body = _body(flags, "", f"_pc_called({parameters.call})")
    scope = {"_pc_called": function}
    return _generate("function", parameters, keyword, body, scope, of=original, flags=flags, body_for=body_for)


def _takes_anything(*_pc_args: Any, **_pc_kwargs: Any) -> None: ...


def _written(function: Any) -> _Parameters:
    """Return the parameters of ``function`` if they can be written down, else those of a function that takes anything.

    A function that was made by a program may have parameters that no source has.
    """
    found = _Parameters(function) if type(function) is FunctionType else None
    return found if found is not None and found.writable else _Parameters(_takes_anything)


def _parameters_of(original: Any, body_for: Optional[FunctionType]) -> _Parameters:
    """Return the parameters of ``original`` if they can be written down, else those of a function that takes anything.

    A function that was made as a body has those of the function that it is for, and its own defaults, if it passes them
    on.
    """
    if body_for is None or original is body_for or type(original) is not FunctionType:
        return _written(original)
    names = original.__code__.co_varnames
    packs = any(name in names for name in _takes_anything.__code__.co_varnames)
    parameters = _written(_takes_anything if packs else body_for)
    if parameters.of is body_for:
        parameters.of = original
        parameters.defaults = original.__defaults__
        own = original.__kwdefaults__ or {}
        names = parameters.texts.keyword_only
        parameters.keyword_defaults = {name: own[name] for name in names if name in own} or None
    return parameters


def _flags(function: Any) -> int:
    """Return the flags of ``function``'s code that decide when it runs; for a ``partial``, of the function inside."""
    if type(function) is FunctionType:
        return function.__code__.co_flags
    if type(function) in _WITHOUT_CODE:
        return 0
    tests: tuple[tuple[Callable[[Any], bool], int], ...] = (
        (inspect.iscoroutinefunction, inspect.CO_COROUTINE),
        (inspect.isgeneratorfunction, inspect.CO_GENERATOR),
        (inspect.isasyncgenfunction, inspect.CO_ASYNC_GENERATOR),
    )
    # `inspect.markcoroutinefunction` (Python 3.12) marks a plain function that returns an awaitable: its body runs in
    # the call, so it is not put off.
    marked = attribute(function, "_is_coroutine_marker") is not None
    try:
        return sum(flag for test, flag in tests if test(function) and not (marked and flag == inspect.CO_COROUTINE))
    except Exception:  # of the code of a proxy
        return 0


_WITHOUT_CODE = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
)


def _body(flags: int, before: str, call: str) -> tuple[str, str]:
    """Return ``def`` or ``async def``, and the lines of a function of a kind that passes a call on.

    Args:
        flags: those of the code for the kind.
        before: lines that come first.
        call: the expression.
    """
    if flags & inspect.CO_ASYNC_GENERATOR:
        return "async def", before + _DELEGATE.format(call=call)
    if flags & inspect.CO_COROUTINE:
        return "async def", f"{before}        return await {call}\n"
    if flags & inspect.CO_GENERATOR:
        return "def", f"{before}        return (yield from {call})\n"
    return "def", f"{before}        return {call}\n"


def wrapping_function(
    original: Any,
    wrapper: Any,
    counter: Optional[Counter] = None,
    body_for: Optional[FunctionType] = None,
    handover: Optional[Handover] = None,
    public: Any = None,
) -> FunctionType:
    """Return a function that calls ``wrapper(original, *args, **kwargs)``.

    It has the parameters of ``original`` where ``wrapper`` has them, too, after the first one: the same names in the
    same order, of the same kinds, with a default where the original has one. The wrapper cannot tell then whether an
    argument was passed by position, by name or not at all, and gets its own defaults, as they are now. Any other
    wrapper gets the arguments as the caller passes them, by position or by name.

    Args:
        original: passed to the wrapper as its first argument.
        wrapper: called with the arguments of the call.
        counter: counts the calls.
        body_for: the function whose body it is to be; ``None`` for a function of its own.
        handover: called before the wrapper, if there is one.
        public: the function that callers know, for ``handover``; ``None`` for the one that is made.
    """
    # One free variable instead of two: a bound method whose `self` is the original. The interpreter puts that before
    # the arguments itself.
    scope: dict[str, Any] = {"_pc_wrapper": types.MethodType(wrapper, original)}
    parameters: Union[_Parameters, _Positions]
    own = _own_parameters(wrapper, _parameters_of(original, body_for))
    if own or handover is not None:  # which gets the arguments, too
        parameters = own or _Parameters(_takes_anything)
        passed = parameters.call
        body = f"        return _pc_wrapper({passed})\n"
    else:
        parameters = _Positions(original if body_for is None else body_for)
        passed, body, scope["_pc_nothing"] = "", parameters.body, _NOTHING
    body = _handing_over(handover, public, passed, scope) + _counting(counter, scope) + body
    return _generate("wrapper", parameters, "def", body, scope, of=original, body_for=body_for)


def _counting(counter: Optional[Counter], scope: dict[str, Any]) -> str:
    """Return the line that counts a call, none without ``counter``; enter the function that counts in ``scope``."""
    if counter is None:
        return ""
    scope["_pc_count"] = counter.tick
    return "        _pc_count()\n"


def _handing_over(handover: Optional[Handover], public: Any, passed: str, scope: dict[str, Any]) -> str:
    """Return the first lines of a function that may hand a call over; enter the objects that they use in ``scope``.

    Args:
        handover: the functions that decide and hand over; ``None`` for no lines.
        public: the function that is passed to the handover.
        passed: the arguments of the call, as source.
        scope: the objects behind the names.
    """
    if handover is None:
        return ""
    scope["_pc_hands_over"], scope["_pc_hand_over"] = handover
    scope["_pc_public"] = public
    call = ", ".join(filter(None, ["_pc_public", passed]))
    return f"        if _pc_hands_over({passed}):\n            return _pc_hand_over({call})\n"


def passing_function(
    original: Any,
    function: Any,
    body_for: FunctionType,
    counter: Optional[Counter] = None,
    handover: Optional[Handover] = None,
    public: Any = None,
) -> FunctionType:
    """Return a function that calls ``function`` instead of ``original``, with the arguments of the call.

    Args:
        original: the function that is replaced.
        function: called; if it has the parameters of ``original`` it gets every argument, with its own defaults.
        body_for: the function whose body it is to be.
        counter: counts the calls.
        handover, public: see :func:`wrapping_function`.
    """
    parameters = _written(function)
    if parameters.header != _parameters_of(original, body_for).header:
        parameters = _Parameters(_takes_anything)
    scope, body = {"_pc_called": function}, f"        return _pc_called({parameters.call})\n"
    body = _handing_over(handover, public, parameters.call, scope) + _counting(counter, scope) + body
    return _generate("replacement", parameters, "def", body, scope, of=original, body_for=body_for)


def _own_parameters(wrapper: Any, parameters: _Parameters) -> Optional[_Parameters]:
    """Return the parameters of ``wrapper`` after its first one if they are like ``parameters`` and it packs none."""
    if type(wrapper) is not FunctionType or wrapper.__code__.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        return None
    own = _Parameters(wrapper, skip=1)
    if not own.writable or parameters.of is _takes_anything or own.header != parameters.header:
        return None
    return own if len(own.defaults or ()) <= len(own.texts.positional) else None


def dispatcher(
    original: Any,
    chosen: Any,
    predicate: Any,
    counter: Optional[Counter] = None,
    body_for: Optional[FunctionType] = None,
    handover: Optional[Handover] = None,
    public: Any = None,
) -> FunctionType:
    """Return a function that calls ``chosen`` where ``predicate`` is true, else ``original``.

    It has the parameters of ``original`` if the two others take them all; otherwise it passes on the arguments of the
    call.

    Args:
        original: called if the predicate is false.
        chosen: called if it is true.
        predicate: called first, with the same arguments.
        counter: counts which of the two is called.
        body_for, handover, public: see :func:`wrapping_function`.
    """
    parameters = _parameters_of(original, body_for)
    if parameters.of is original and not (parameters.are_taken_by(chosen) and parameters.are_taken_by(predicate)):
        parameters = _Parameters(_takes_anything)
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
    body = _handing_over(handover, public, parameters.call, scope) + body
    return _generate("dispatcher", parameters, "def", body, scope, of=original, body_for=body_for)


def counting_function(function: Any, counter: Counter) -> FunctionType:
    """Return a function with the parameters of ``function``, as far as they are known, that counts and calls it.

    For a coroutine or generator function it is one too, and counts when its result begins to run.
    """
    parameters, flags = _written(function), _flags(function)
    scope = {"_pc_function": function}
    keyword, body = _body(flags, _counting(counter, scope), f"_pc_function({parameters.call})")
    return _generate("counter", parameters, keyword, body, scope, of=function, flags=flags)


def signature_of(function: Any, *, follow_wrapped: bool = True) -> inspect.Signature:
    """Return ``inspect.signature(function)``, also if its annotations cannot be computed.

    Since Python 3.14 annotations are computed when they are read, and fail where a name is imported for type
    checkers only (PEP 649): such an annotation is a ``ForwardRef`` here.

    Examples:
        >>> from patchcore.plugin import signature_of
        >>> def price(goods, count=1): ...
        >>> signature_of(price)
        <Signature (goods, count=1)>
    """
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(function, follow_wrapped=follow_wrapped, annotation_format=Format.FORWARDREF)
    return inspect.signature(function, follow_wrapped=follow_wrapped)


class _Texts(NamedTuple):
    """The source text of the parameters of a function. ``writable`` is true if a source can have all their names."""

    writable: bool
    positional: tuple[str, ...]
    keyword_only: tuple[str, ...]
    args: Optional[str]
    kwargs: Optional[str]
    parts: tuple[str, ...]
    header: str
    call: str


@functools.lru_cache(maxsize=512)  # many functions have the same parameters
def _texts(
    names: tuple[str, ...], counts: tuple[int, int, int], flags: int, defaults: int, named: tuple[str, ...]
) -> _Texts:
    """Return the texts for some parameters.

    Args:
        names: of all of them, in the order of a code's variables; further ones are ignored.
        counts: how many are by position, of these by position only, and by name only.
        flags: ``CO_VARARGS`` and ``CO_VARKEYWORDS`` of the code.
        defaults: how many of those by position have a default.
        named: those by name only that have one.
    """
    count, positional_only, only = counts
    positional, keyword_only = names[:count], names[count : count + only]
    rest = list(names[count + only :])
    args = rest.pop(0) if flags & inspect.CO_VARARGS else None
    kwargs = rest.pop(0) if flags & inspect.CO_VARKEYWORDS else None
    # the values of the defaults are set on the finished function
    parts = [name if i < count - defaults else f"{name}=None" for i, name in enumerate(positional)]
    if positional_only > 0:
        parts.insert(positional_only, "/")
    if args or keyword_only:
        parts.append(f"*{args or ''}")
    parts += (f"{name}=None" if name in named else name for name in keyword_only)
    parts += [f"**{kwargs}"] if kwargs else []
    call = [
        *positional,
        *([f"*{args}"] if args else ()),
        *(f"{name}={name}" for name in keyword_only),
        *([f"**{kwargs}"] if kwargs else ()),
    ]
    writable = all(name.isidentifier() and not iskeyword(name) and not name.startswith(_RESERVED) for name in names)
    return _Texts(writable, positional, keyword_only, args, kwargs, tuple(parts), ", ".join(parts), ", ".join(call))


class _Parameters:
    """The parameters of a function, as the text of its header and of a call that passes them all on.

    Args:
        function: has them.
        skip: how many of the first ones are left out.
    """

    def __init__(self, function: Any, *, skip: int = 0) -> None:
        self.of = function
        self.defaults, self.keyword_defaults = function.__defaults__, function.__kwdefaults__
        code: CodeType = function.__code__
        packs = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
        last = code.co_argcount + code.co_kwonlyargcount + bin(packs).count("1")
        self.texts = _texts(
            code.co_varnames[skip:last],
            (code.co_argcount - skip, code.co_posonlyargcount - skip, code.co_kwonlyargcount),
            packs,
            len(self.defaults or ()),
            tuple(self.keyword_defaults or ()),
        )
        self.writable, self.header, self.call = self.texts.writable, self.texts.header, self.texts.call

    def with_keyword(self, name: str) -> str:
        """Return the header with a further keyword-only parameter."""
        texts = self.texts
        last = [f"**{texts.kwargs}"] if texts.kwargs else []
        parts = texts.parts[: len(texts.parts) - len(last)]
        star = [] if texts.args or texts.keyword_only else ["*"]
        return ", ".join([*parts, *star, f"{name}=None", *last])

    def are_taken_by(self, function: Any) -> bool:
        """Return whether ``function`` can be called with all of them, as far as its signature is known."""
        if type(function) is FunctionType and not vars(function) and _Parameters(function).header == self.header:
            return True  # the usual case, and much faster than a signature
        texts = self.texts
        try:
            signature = signature_of(function)
        except Exception:  # it has none, or the code of a proxy has raised
            return False
        kinds = {parameter.kind for parameter in signature.parameters.values()}
        if (texts.args and inspect.Parameter.VAR_POSITIONAL not in kinds) or (
            texts.kwargs and inspect.Parameter.VAR_KEYWORD not in kinds
        ):
            return False
        try:
            bound = signature.bind(*texts.positional, **dict.fromkeys(texts.keyword_only)).arguments
        except TypeError:
            return False
        # Passed by position, one of them would be another one there: op(x, weight, bias), npu(x, bias, weight).
        names = set(texts.positional)
        moved = ((name, value) for name, value in bound.items() if type(value) is str and name != value)
        return not any(name in names or value in signature.parameters for name, value in moved)


class _Positions:
    """Parameters for any arguments. The first positional ones have a parameter each, because packing them takes time.

    Args:
        original: a function has one place for each positional parameter, up to four. Other callables have four.
    """

    def __init__(self, original: Any) -> None:
        many = usual = _PLACES
        if type(original) is FunctionType:
            many = min(original.__code__.co_argcount, _PLACES)
            usual = max(0, min(many, original.__code__.co_argcount - len(original.__defaults__ or ())))
        self._places, self.body = _by_position(many, usual)
        self.defaults, self.keyword_defaults = (_NOTHING,) * many, None
        self.header = f"{self._places}, **_pc_named"

    def with_keyword(self, name: str) -> str:
        """Return the header with a further keyword-only parameter."""
        return f"{self._places}, {name}=None, **_pc_named"


@functools.cache
def _by_position(many: int, usual: int) -> tuple[str, str]:
    """Return the header and the body of a function that passes its arguments to a wrapper, just as they come.

    Args:
        many: how many arguments by position have a parameter each.
        usual: how many of them most callers pass: the parameters without a default. The body tests this number first.
    """
    places = [f"_pc_{i}" for i in range(many)]
    header = [*(f"{place}=None" for place in places), *("/" for _ in places[:1]), "*_pc_rest"]
    body = ""
    for count in (*range(usual, many + 1), *range(usual)):
        tests = [f"{place} is not _pc_nothing" for place in places[:count][-1:]]
        tests += (f"{place} is _pc_nothing" for place in places[count:][:1])
        passed = ", ".join(places[:count])
        test, rest = ("_pc_named or _pc_rest", ["*_pc_rest"]) if count == many else ("_pc_named", [])
        packed = ", ".join([*places[:count], *rest, "**_pc_named"])
        body += (
            f"        if {' and '.join(tests) or 'True'}:\n"
            f"            if {test}:\n"
            f"                return _pc_wrapper({packed})\n"
            f"            return _pc_wrapper({passed})\n"
        )
    return ", ".join(header), body


def _generate(
    what: str,
    parameters: Union[_Parameters, _Positions],
    keyword: str,
    body: str,
    scope: dict[str, Any],
    *,
    of: Any,
    flags: int = 0,
    body_for: Optional[FunctionType] = None,
) -> FunctionType:
    """Write and compile a function with some parameters and their defaults.

    Args:
        what: the word for it in tracebacks.
        parameters: its parameters, with their defaults.
        keyword: ``def`` or ``async def``.
        body: its lines.
        scope: the objects behind the names in ``body``, each of which begins with ``_pc_``.
        of: the object that tracebacks name.
        flags: the flags of the original's code; ``types.coroutine`` marks a generator function in them.
        body_for: the function whose body it is to be. Python gives no function other cells, so ``scope`` becomes the
            default of one keyword-only parameter (one, because each adds some 20 ns to a call). The free variables
            of ``body_for`` are named in code that never runs, because ``__code__`` must have as many.
    """
    header, free, given = parameters.header, tuple(scope), dict(scope)
    if body_for is not None:
        if len(scope) > 1:
            body = f"        {', '.join(scope)} = _pc_scope\n{body}"
            given = {"_pc_scope": tuple(scope.values())}
        header, free = parameters.with_keyword(*given), body_for.__code__.co_freevars
        body = (f"        if 0: ({', '.join(free)},)\n" if free else "") + body
    code, lines, size = _compiled(f"_pc_{what}", keyword, header, body, *free)
    where = f"{attribute(of, '__module__')}:{attribute(of, '__qualname__', type(of).__name__)}"
    filename = f"<patchcore {what} for {where}>"
    # (size, no mtime, lines, name): tracebacks and inspect.getsource show the function. `linecache.checkcache` looks
    # only for files of entries that have an mtime, so it never drops this one.
    linecache.cache[filename] = (size, None, lines, filename)
    code = code.replace(co_filename=filename, co_flags=code.co_flags | flags & inspect.CO_ITERABLE_COROUTINE)
    if body_for is not None:
        made = FunctionType(code, body_for.__globals__, code.co_name, parameters.defaults, body_for.__closure__)
        made.__kwdefaults__ = {**(parameters.keyword_defaults or {}), **given}
        return made
    cells = tuple(types.CellType(scope[name]) for name in code.co_freevars)
    # the globals are those of this module: code that looks at the frame of its caller reads the name of its module
    made = FunctionType(code, globals(), code.co_name, parameters.defaults, cells)
    if parameters.keyword_defaults:
        made.__kwdefaults__ = dict(parameters.keyword_defaults)
    if "_pc_public" in scope and scope["_pc_public"] is None:
        # The function that callers know is this one, which does not exist before its cells do: one cell is filled
        # later.
        cells[code.co_freevars.index("_pc_public")].cell_contents = made
    return made


@functools.lru_cache(maxsize=256)
def _compiled(name: str, keyword: str, header: str, body: str, *names: str) -> tuple[CodeType, list[str], int]:
    """Return the code of a function in ``_pc_make``, whose parameters are ``names``; the lines and size of the source.

    The texts hold names of parameters only, so functions with the same parameters share it.
    """
    source = f"def _pc_make({', '.join(names)}):\n    {keyword} {name}({header}):\n{body}    return {name}\n"
    code = compile(source, "<patchcore>", "exec")
    for _ in ("_pc_make", "the function within"):
        code = next(value for value in code.co_consts if type(value) is CodeType)  # the code of a nested function
    return code, source.splitlines(True), len(source)
