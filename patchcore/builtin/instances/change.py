"""The change of a method of single objects, which a predicate chooses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, Optional, Union

from patchcore.declare.changes import Change, as_callable
from patchcore.declare.target import Item, Target
from patchcore.errors import DeclarationError

__all__ = ["Instances"]


class Instances(Change):
    """Call ``wrapper(original, self, *args, **kwargs)`` in the place of a method, for some objects of a class.

    The predicate is called once for each object of the class or of a subclass, when its ``__init__`` has ended. Objects
    that exist already when the patch is applied are left alone, and so are objects that are made without ``__init__``:
    by ``copy`` and ``pickle``. The objects are held weakly. Each has the method as an attribute of its own, a bound
    method, until the patch is reverted; a deep copy has it, too, and passes calls on after that.

    Args:
        target: the class, ``package.module:Class``.
        wrapper: the callable, or a target text that is imported when the patch is applied.
        method: the name of the method.
        where: predicate over an object; by default every object is changed. If it raises, the patch fails.

    Raises:
        DeclarationError: an argument is malformed, or ``method`` is a special method: Python looks these up in classes.

    Examples:
        >>> import sys
        >>> import patchcore as pc
        >>> class Till:
        ...     def __init__(self, number):
        ...         self.number = number
        ...
        ...     def total(self):
        ...         return 3
        >>> sys.modules["demo_till"] = type(sys)("demo_till")
        >>> sys.modules["demo_till"].Till = Till
        >>> def doubled(original, self):
        ...     return 2 * original(self)
        >>> change = pc.Instances("demo_till:Till", doubled, method="total", where=lambda till: till.number == 1)
        >>> with pc.Patcher([pc.Patch("demo.total", change)]):
        ...     tills = [Till(0), Till(1)]
        ...     [till.total() for till in tills]
        [3, 6]
        >>> [till.total() for till in tills]
        [3, 3]
        >>> del sys.modules["demo_till"]
    """

    wrapper: Any
    method: str
    where: Optional[Callable[[Any], Any]]

    makes_product = True
    shares_slots = True

    def __init__(
        self,
        target: Union[str, Target],
        wrapper: Union[str, Callable[..., Any]],
        *,
        method: str,
        where: Optional[Callable[[Any], Any]] = None,
    ) -> None:
        place = f"Instances({str(target)!r}, method={method!r})"
        if where is not None and not callable(where):
            raise DeclarationError(f"{place}: where must be callable, got {where!r}")
        if not isinstance(method, str) or not method.isidentifier():
            raise DeclarationError(f"{place}: method must be the name of a method")
        if method.startswith("__") and method.endswith("__"):
            raise DeclarationError(
                f"{place}: Python looks special methods up in the class, not in the object; write "
                f"Wrap('{target}.{method}', wrapper), and let the wrapper look at self"
            )
        target = target if isinstance(target, Target) else Target.parse(target)
        super().__init__(target=target, wrapper=as_callable(wrapper, "wrapper", place), method=method, where=where)

    @property
    def source(self) -> Any:
        return self.wrapper

    @property
    def runs(self) -> Sequence[Any]:
        return (self.wrapper,)

    def claims(self, target: Target) -> tuple[Target, ...]:
        return (Target(target.module, (*target.path, Item(f"{self.method} of objects"))),)

    def phrase(self, target: Target) -> str:
        return f"{self.kind} {target}, method {self.method}"
