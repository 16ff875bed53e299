"""The record that a plugin returns for ``patchcore new --from FILE``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Union

__all__ = ["PluginSource", "TitledRows"]


class TitledRows(NamedTuple):
    """Rows to print under a title.

    Args:
        title: printed first.
        columns: headings.
        rows: as many texts each as there are columns.

    Examples:
        >>> from patchcore.plugin import TitledRows
        >>> TitledRows("Prices", ("GOODS", "PRICE"), [("tea", "3")]).title
        'Prices'
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


class PluginSource(NamedTuple):
    """The patches of a file as the sources of a plugin.

    Args:
        files: the texts of the new plugin's files, by path in its folder.
        told: tables and lines that the command prints about the file, in order.
        needs: the distributions that the plugin depends on besides patchcore: the line that installs it names those
            that are missing.

    Examples:
        >>> from patchcore.plugin import PluginSource
        >>> PluginSource({"shop_npu/plugin.py": "import patchcore"}, needs=["torch"]).needs
        ['torch']
    """

    files: Mapping[str, str]
    told: Sequence[Union[TitledRows, str]] = ()
    needs: Sequence[str] = ()
