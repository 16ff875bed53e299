"""Operators with kernels in releases of torch_npu: data files beside this module, from ``tools/operator_table.py``."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from packaging.version import Version

from patchcore import SettingsError

__all__ = ["COMPOSITE", "FALLBACK", "KERNEL", "Table", "available", "choose", "excluded_dtypes"]

_FOLDER = Path(__file__).with_name("tables")
_PREFIX = "torch_npu-"

#: How an operator runs on NPU tensors: a kernel of torch_npu, a kernel for all devices that calls other operators, or
#: none, so that torch_npu's fallback computes on the CPU.
KERNEL, COMPOSITE, FALLBACK = "kernel", "composite", "none"

_MEANING = {"sparse": KERNEL, "structured": COMPOSITE, "explicit": COMPOSITE, "implicit": COMPOSITE}


#: Dtypes that are looked up in torch_npu's documentation. It names others as well, but leaves out bfloat16 and integers
#: of operators that have kernels for them.
_LOOKED_UP = ("float64", "complex64", "complex128")


@functools.cache
def _documented() -> Mapping[str, frozenset[str]]:
    """Return the dtypes that the newest table has, by operator without ``aten::`` and overload."""
    newest = max(_FOLDER.glob("dtypes-*.json"), key=lambda path: Version(path.stem.partition("-")[2]))
    view: dict[str, Any] = json.loads(newest.read_text(encoding="utf-8"))
    return {name: frozenset(dtypes.split()) for dtypes, names in view["operators"].items() for name in names}


def excluded_dtypes(operator: str, dtypes: Iterable[str]) -> tuple[str, ...]:
    """Return which of ``dtypes`` torch_npu's documentation leaves out for an operator that it has dtypes of.

    Args:
        operator: the dispatcher's name, ``aten::add.Tensor``.
        dtypes: of the tensors of a call: ``float64``; of these only double precision and complex ones are looked up.
    """
    namespace, _, name = operator.partition("::")
    if namespace != "aten":
        return ()
    documented = _documented().get(name.partition(".")[0].strip("_"))
    if documented is None:
        return ()
    return tuple(dtype for dtype in _LOOKED_UP if dtype in dtypes and dtype not in documented)


@dataclass(frozen=True)
class Table:
    """The operators of one release.

    Args:
        torch_npu: its version.
        torch: the version of torch it is for, whose operators are listed.
        source: where the names were read, and how.
        fallback: whether an operator without a kernel runs on the CPU.
        operators: word for each, by the dispatcher's name: ``kernel``, ``structured``, ``explicit``, ``implicit``,
            ``sparse``, ``none``; see ``tools/operator_table.py``.
    """

    torch_npu: str
    torch: str
    source: Mapping[str, str]
    fallback: bool
    operators: Mapping[str, str]

    @property
    def kernels(self) -> frozenset[str]:
        """The operators that have a kernel of torch_npu."""
        return frozenset(name for name, word in self.operators.items() if word == KERNEL)

    def word(self, operator: str) -> Optional[str]:
        """Return ``KERNEL``, ``COMPOSITE`` or ``FALLBACK``; ``None`` for an operator that the table does not know."""
        word = self.operators.get(operator)
        return None if word is None else _MEANING.get(word, word)

    @classmethod
    def read(cls, version: str) -> Table:
        """Return the table of a release that :func:`available` names."""
        view: dict[str, Any] = json.loads((_FOLDER / f"{_PREFIX}{version}.json").read_text(encoding="utf-8"))
        operators = {name: word for word, names in view["operators"].items() for name in names}
        return cls(view["torch_npu"], view["torch"], view["source"], view["fallback"], operators)


def available() -> list[str]:
    """Return the versions of torch_npu that have a table, the newest first."""
    versions = (path.stem[len(_PREFIX) :] for path in _FOLDER.glob(f"{_PREFIX}*.json"))
    return sorted(versions, key=Version, reverse=True)


def choose(wanted: Optional[str], torch: Optional[str]) -> str:
    """Return the version whose table is to be used.

    Args:
        wanted: a version or the beginning of one, ``2.13``; by default the newest for ``torch``, else the newest.
        torch: version of torch here, ``None`` where there is none.

    Raises:
        SettingsError: there is no table of that version.
    """
    versions = available()
    if wanted is not None:
        found = _of_series(versions, wanted)
        if not found:
            raise SettingsError(
                f"--torch-npu {wanted}: expected a version that has a table here, one of {', '.join(versions)}; "
                f"tools/operator_table.py makes one from a wheel of torch_npu"
            )
        return found[0]
    series = ".".join(torch.split("+")[0].split(".")[:2]) if torch else ""
    return (_of_series(versions, series) or versions)[0]


def _of_series(versions: Sequence[str], beginning: str) -> list[str]:
    return [version for version in versions if version == beginning or version.startswith(f"{beginning}.")]
