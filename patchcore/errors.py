"""The exceptions that patchcore raises, and helpers for their messages.

PatchcoreError
├── DeclarationError      a patch or a change is declared wrongly
│   └── TargetError       a target cannot be parsed
├── TargetNotFound        a target does not exist in the library that is installed
├── Unseen                a target cannot be looked up without importing its library
│   └── NotShown          the sources are there and do not define it
├── UnknownName           a name in enable / disable / plugins matches nothing
├── PlanError             the patches cannot be put in an order (a cycle)
├── ConflictError         two patches write one slot and neither gives way
├── PluginError           a plugin failed to load, to register or in a hook
├── Ended                 code of others raised an exception that would end the program, SystemExit for example
├── SettingsError         a setting cannot be read or has no meaning
├── StubError             a stub, which stands for a library that is not there, was used
└── PatchError            a patch failed and the policy is to raise

A message names the target, the patch and its plugin, the expected and the found value, and the line that fixes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Optional

__all__ = [
    "CONTAINED",
    "ConflictError",
    "DeclarationError",
    "Ended",
    "NotShown",
    "PatchError",
    "PatchcoreError",
    "PlanError",
    "PluginError",
    "SettingsError",
    "StubError",
    "TargetError",
    "TargetNotFound",
    "UnknownName",
    "Unseen",
    "conflict_message",
    "describe_error",
    "did_you_mean",
    "missing_modules",
]

#: Python's message about a module that it cannot find.
_NO_MODULE = re.compile(r"No module named '?([\w.]+)")


class PatchcoreError(Exception):
    """Base of every error patchcore raises on purpose.

    Examples:
        >>> import patchcore as pc
        >>> try:
        ...     pc.Target.parse("shop")
        ... except pc.PatchcoreError as error:
        ...     print(type(error).__name__)
        TargetError
    """


class DeclarationError(PatchcoreError, ValueError):
    """A patch, a change or a requirement is declared wrongly.

    Examples:
        >>> import patchcore as pc
        >>> pc.Replace("shop:price", "fast_shop.price")
        Traceback (most recent call last):
        patchcore.errors.DeclarationError: ...write 'package.module:attribute' for the object at that target...
    """


class TargetError(DeclarationError):
    """A target is malformed.

    Examples:
        >>> import patchcore as pc
        >>> pc.Target.parse("shop")
        Traceback (most recent call last):
        patchcore.errors.TargetError: target 'shop' names a module, not something in it; write 'shop:attribute'
    """


class TargetNotFound(PatchcoreError, LookupError):
    """A target names something that does not exist.

    Examples:
        >>> import patchcore as pc
        >>> pc.original("statistics:meen")
        Traceback (most recent call last):
        patchcore.errors.TargetNotFound: statistics has no meen (target statistics:meen); did you mean 'mean'?
    """


class Unseen(PatchcoreError, LookupError):
    """A target could not be looked up in the source of its library, which is not imported."""


class NotShown(Unseen):
    """The sources that can define a target are read and do not define it; code that runs may still add it."""


class UnknownName(PatchcoreError, LookupError):
    """A name given to enable, disable or allow matches no patch, legacy name, plugin or target.

    Args:
        message: the text of the error.
        name: the name, if it is that of a patch.

    Examples:
        >>> import patchcore as pc
        >>> patch = pc.Patch("shop.price", changes=pc.Replace("shop:price", len))
        >>> pc.Patcher([patch], disable="shop.prise").plan()
        Traceback (most recent call last):
        patchcore.errors.UnknownName: ...did you mean 'shop.price'?
    """

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.name = name


class PlanError(PatchcoreError):
    """No order satisfies the declared ``after`` / ``before``.

    Examples:
        >>> import patchcore as pc
        >>> one = pc.Patch("demo.one", after="demo.two", changes=pc.Replace("statistics:mean", min))
        >>> two = pc.Patch("demo.two", after="demo.one", changes=pc.Replace("statistics:mode", min))
        >>> pc.Patcher([one, two]).plan()
        Traceback (most recent call last):
        patchcore.errors.PlanError: ...
    """


class ConflictError(PatchcoreError):
    """Two patches write the same slot and neither is declared to stack on the other.

    Examples:
        >>> import patchcore as pc
        >>> def same(original, *args, **kwargs):
        ...     return original(*args, **kwargs)
        >>> one = pc.Patch("demo.one", changes=pc.Wrap("collections:namedtuple", same))
        >>> two = pc.Patch("demo.two", changes=pc.Wrap("inspect:namedtuple", same))  # the same function
        >>> try:
        ...     pc.Patcher([one, two], strict=True).apply()
        ... except pc.PatchError as error:
        ...     print(type(error.__cause__).__name__)
        ConflictError
    """


class PluginError(PatchcoreError):
    """A plugin failed to load, to register or inside a hook.

    Examples:
        >>> from patchcore.cli import build_parser
        >>> from patchcore.plugin import patcher_from
        >>> patcher_from(build_parser(discover=False)[0].parse_args(["list", "-p", "no_such_module"]))
        Traceback (most recent call last):
        patchcore.errors.PluginError: the patch module no_such_module...cannot be loaded...
    """


class Ended(PatchcoreError):
    """Code of others raised ``SystemExit``, or another exception that is no ``Exception`` and would end the program.

    That exception is the ``__cause__``.
    """


class _Contained:
    """A block that runs code of others: an exception that would end the program becomes :class:`Ended`, an error.

    ``KeyboardInterrupt``, an interrupt by the user, passes unchanged.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if error is not None and not isinstance(error, (Exception, KeyboardInterrupt)):
            raise Ended(f"{describe_error(error)} was raised, which would have ended the program") from error


#: Every call of a function of a plugin, and every import that patchcore makes, is in such a block.
CONTAINED = _Contained()


class SettingsError(PatchcoreError, ValueError):
    """A setting cannot be read or has an impossible value.

    Examples:
        >>> import patchcore as pc
        >>> pc.Settings.load(arguments={"on_failure": "retry"})
        Traceback (most recent call last):
        patchcore.errors.SettingsError: ...
    """


class StubError(PatchcoreError, RuntimeError):
    """A stub was used: something of a library that is not there, which a patch has made importable.

    Examples:
        >>> import patchcore as pc
        >>> patch = pc.Patch("demo.stub", changes=pc.StubImport("fast_attention"))
        >>> with pc.Patcher([patch]):
        ...     from fast_attention import attend
        >>> attend + 1
        Traceback (most recent call last):
        patchcore.errors.StubError: fast_attention.attend was ...
    """


class PatchError(PatchcoreError):
    """A patch failed where the policy is to raise; everything applied in the same call was undone.

    ``report`` is the :class:`patchcore.Report` of the moment of failure, ``None`` when there is none.

    Examples:
        >>> import patchcore as pc
        >>> patch = pc.Patch("demo.mean", changes=pc.Replace("statistics:meen", min))
        >>> pc.Patcher([patch], strict=True).apply()
        Traceback (most recent call last):
        patchcore.errors.PatchError: ...
    """

    report: Any = None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the known name nearest to ``name``, or ``""`` when none is near.

    Case and the parts before the last dot are forgiven, so that ``Deform_Conv`` finds ``mmcv.deform_conv``.

    Examples:
        >>> from patchcore.plugin import did_you_mean
        >>> did_you_mean("prise", ["price", "tea"])
        "; did you mean 'price'?"
    """
    from patchcore.stdlib import difflib  # only on the way to an error

    exact = {k: k for k in known}
    lower = {k.lower(): k for k in exact}
    tails = {k.rpartition(".")[2]: v for k, v in lower.items()}
    for text, pool in ((name, exact), (name.lower(), lower), (name.lower(), tails)):
        match = difflib.get_close_matches(text, list(pool), n=1, cutoff=0.6)
        if match:
            return f"; did you mean {pool[match[0]]!r}?"
    return ""


def conflict_message(slot: str, first: Any, second: Any, *, inside: bool = False) -> str:
    """Return the message for two patches that write one slot.

    Args:
        slot: the place, as text.
        first: anything with a ``patch`` and its ``provenance``: the one that is applied.
        second: likewise, the one that is not.
        inside: true if the first writes inside the object that the second replaces, so that it must be applied later.
    """
    one, other = first.patch.name, second.patch.name
    below, above, order = (
        (other, one, "first on top of the second") if inside else (one, other, "second on top of the first")
    )
    return (
        f"{slot} is patched by both {one} ({first.provenance}) and {other} ({second.provenance}); "
        f"to apply both, the {order}, declare after=[{below!r}] in {above}; "
        f"to apply only one, declare conflicts=[{one!r}] in {other}, or run with --disable {other}"
    )


def missing_modules(texts: Iterable[str]) -> list[str]:
    """Return the names of the modules that are missing according to the messages of Python in ``texts``.

    Examples:
        >>> missing_modules(["ModuleNotFoundError: No module named 'shop'"])
        ['shop']
    """
    return [name for text in texts for name in _NO_MODULE.findall(text)]


def describe_error(error: BaseException) -> str:
    """Return an error as one line: its type and message, or the message alone if patchcore raised it.

    Examples:
        >>> describe_error(ValueError("no price"))
        'ValueError: no price'
    """
    try:
        text = " ".join(str(error).split())
    except KeyboardInterrupt:
        raise
    except BaseException:  # a broken __str__ must not hide that there was an error
        text = ""
    if isinstance(error, PatchcoreError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
