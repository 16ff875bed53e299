"""The records that a ``patch.py`` is read into: declarations of a plugin, and remarks on the work that is left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Union

import patchcore
from patchcore import DeclarationError

__all__ = ["Code", "Construction", "Migration", "PatchDeclaration", "Provided", "Remark", "problem_of"]


class Code(NamedTuple):
    """An argument that is an expression of Python, not a literal.

    Args:
        text: as it is written in ``plugin.py``, ``_later("X._check")``.
    """

    text: str


class Construction(NamedTuple):
    """A change as the call that ``plugin.py`` will have.

    Args:
        function: public name of patchcore, ``Replace``.
        arguments: literals and :class:`Code`.
        keywords: likewise, by name.
    """

    function: str
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any] = {}

    def check(self) -> None:
        """Make the change, to see whether it is valid.

        Raises:
            DeclarationError: it is not.
        """
        constructor = getattr(patchcore, self.function)
        constructor(*map(_stand_in, self.arguments), **{name: _stand_in(v) for name, v in self.keywords.items()})


class Remark(NamedTuple):
    """A note about a line of the file, or something to do about it.

    Args:
        line: number of the line.
        what: the code in question.
        advice: the remedy.
    """

    line: int
    what: str
    advice: str


class PatchDeclaration(NamedTuple):
    """A patch of the new plugin.

    Args:
        name: of the patch.
        line: where the file declares it.
        changes: in the order of the file; a :class:`Remark` stands where a change is left to do.
        keywords: further arguments of :class:`patchcore.Patch`.
        notes: remarks on how it was read.
        known_as: the name by which the file disables it.
    """

    name: str
    line: int
    changes: tuple[Union[Construction, Remark], ...]
    keywords: Mapping[str, Any]
    notes: tuple[Remark, ...] = ()
    known_as: str = ""

    @property
    def is_complete(self) -> bool:
        """True if nothing is left to do by hand."""
        return not any(isinstance(change, Remark) for change in self.changes)

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """The remarks on work that is left to do by hand."""
        return tuple(change for change in self.changes if isinstance(change, Remark))


class Provided(NamedTuple):
    """A predefined patch that the file uses, and the distribution that has it.

    Args:
        line: where it is used.
        name: in the file.
        patches: their names in that distribution.
        distribution: that has them.
        default: whether they are applied without being asked for.
    """

    line: int
    name: str
    patches: tuple[str, ...]
    distribution: str
    default: bool


class Migration(NamedTuple):
    """The result of reading a file.

    Args:
        patches: the plugin's, in the order in which they apply.
        provided: patches that other plugins have.
        settings: lines for ``[tool.patchcore]``.
        functions: names of ``functions.py``, each with its object of ``replacements.py``.
        left: the work that is left to do by hand, by line.
        notes: remarks, by line.
        distributions: the dependencies of the plugin besides patchcore.
        replacements: text of ``replacements.py``.
    """

    patches: tuple[PatchDeclaration, ...]
    provided: tuple[Provided, ...]
    settings: tuple[str, ...]
    functions: Mapping[str, str]
    left: tuple[Remark, ...]
    notes: tuple[Remark, ...]
    distributions: tuple[str, ...]
    replacements: str


def problem_of(construction: Construction) -> str:
    """Return why a change is not valid, empty if it is."""
    try:
        construction.check()
    except DeclarationError as error:
        return str(error)
    return ""


def _stand_in(value: Any) -> Any:
    return print if isinstance(value, Code) else value
