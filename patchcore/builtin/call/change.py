"""The change that runs a function which patches by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Callable, Optional, Union

from patchcore.declare.changes import Change, as_callable, resolve
from patchcore.declare.declaration import as_mapping, as_tuple
from patchcore.declare.target import Target
from patchcore.errors import CONTAINED

__all__ = ["Call"]


class Call(Change):
    """Run a function that patches by hand, ``func(module, options)``, once ``module`` is imported.

    The engine compares the modules, their classes and their tables under the module's top-level package, and under
    those of ``roots``, before and after, so that every edit is reported and reverted one by one.

    Args:
        func: the function, or a target text that is imported when the patch is applied.
        module: dotted name of the module that is handed to the function.
        options: second argument of the function, a mapping.
        roots: further top-level packages that the function changes.

    Raises:
        DeclarationError: an argument is malformed.

    Examples:
        >>> import statistics
        >>> import patchcore as pc
        >>> def patch_by_hand(module, options):
        ...     module.mean = min
        >>> with pc.Patcher([pc.Patch("demo.mean", changes=pc.Call(patch_by_hand, module="statistics"))]):
        ...     statistics.mean([1, 3])
        1
    """

    func: Any
    options: Mapping[str, Any]
    roots: tuple[str, ...]

    by_hand = True

    def __init__(
        self,
        func: Union[str, Callable[..., Any]],
        *,
        module: str,
        options: Optional[Mapping[str, Any]] = None,
        roots: Sequence[str] = (),
    ) -> None:
        where = f"Call({func!r}, module={module!r})"
        # an attribute every module has makes the module itself the thing waited for
        target = Target.parse(f"{module}:__dict__")
        super().__init__(
            target=target,
            func=as_callable(func, "func", where),
            options=as_mapping(options, "options", where),
            roots=as_tuple(roots, "roots", where),
        )

    @property
    def source(self) -> Any:
        return self.func

    @property
    def runs(self) -> Sequence[Any]:
        return (self.func,)

    def subject(self, target: Target) -> str:
        return target.module

    def run(self, module: Any) -> None:
        """Call the function with ``module`` and the options."""
        function = resolve(self.func)
        with CONTAINED:
            function(module, dict(self.options))

    def claims(self, target: Target) -> tuple[Target, ...]:
        return ()  # its edits are not known in advance

    def with_options(self, options: Mapping[str, Any]) -> Change:
        return self.evolve(options=MappingProxyType({**self.options, **options}))

    def __str__(self) -> str:
        name: Any = self.func
        if not isinstance(name, Target):
            name = getattr(name, "__qualname__", repr(name))
        return f"call {name}({self.target.module})"
