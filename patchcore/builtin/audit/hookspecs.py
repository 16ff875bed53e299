"""The hook that the plugin ``audit`` brings."""

from __future__ import annotations

from collections.abc import Iterable

from patchcore.hookspecs import hookspec

__all__ = ["known_foreign_patches"]


@hookspec
def known_foreign_patches() -> Iterable[tuple[str, str, str]]:  # type: ignore[empty-body]
    """Return patches that a library makes in every process that uses it: an audit shows them in one line.

    Each is a triple: the top-level package that makes it; the target, in which ``*`` stands for any text; where that is
    written, as a file of the library. Called when an audit is shown.
    """
