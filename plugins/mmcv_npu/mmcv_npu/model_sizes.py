"""Reads sizes from a model's configuration and warns, in a plan, of those beyond the limits of kernels of mx_driving.

The setting ``model_config`` names the configuration. Its dictionaries are read from the source, and so are those of its
``_base_`` files: nothing is imported or run. A value that is not written as such, or as a name that is one, is unknown;
the report of a run lists the calls that were made.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Optional

import patchcore as pc
from mmcv_npu.multi_scale_deformable_attention import MOST_CHANNELS, MOST_HEADS
from patchcore.plugin import check_path

__all__ = ["SETTING", "Declared", "declared", "remarks_on", "with_model"]

#: Key of the setting, and of the option of the patches.
SETTING = "model_config"

_UNKNOWN = object()
_CONVOLUTIONS = {
    "mmcv.deform_conv": frozenset(["DCN", "DCNv1", "DeformConv", "DeformConv2d", "DeformConv2dPack"]),
    "mmcv.modulated_deform_conv": frozenset(["DCNv2", "ModulatedDeformConv2d", "ModulatedDeformConv2dPack"]),
}
_ATTENTION = "mmcv.multi_scale_deformable_attention"
_ATTENTION_TYPE = re.compile(r"Deform\w*Att(?:n|ention)")
#: mmcv's own (``MultiScaleDeformableAttention.__init__``).
_ATTENTION_DEFAULTS = {"embed_dims": 256, "num_heads": 8, "num_levels": 4, "num_points": 4}


class Declared(NamedTuple):
    """A dictionary of a configuration.

    Args:
        file, line: where it is.
        values: its entries, as far as they are known.
    """

    file: Path
    line: int
    values: Mapping[str, Any]


def register() -> pc.Setting:
    """Return the setting."""
    return pc.Setting(SETTING, check_path)


def with_model(patches: tuple[pc.Patch, ...], config: Optional[str]) -> tuple[pc.Patch, ...]:
    """Return the patches, those whose kernels have limits with the configuration as an option."""
    if config is None:
        return patches
    limited = {*_CONVOLUTIONS, _ATTENTION}
    return tuple(patch.evolve(options={SETTING: config}) if patch.name in limited else patch for patch in patches)


def remarks_on(patch: pc.Patch) -> Iterator[pc.Remark]:
    """Yield a remark on each size of the model that the kernel of a patch does not take.

    Args:
        patch: with the configuration as an option, see :func:`with_model`.
    """
    config = patch.options.get(SETTING)
    if config is None:
        return
    found: dict[str, None] = {}  # in their order, each once
    try:
        for each in declared(Path(config)):
            limit = _limit(patch.name, each.values)
            if limit:
                found[f"{each.file}:{each.line}: {limit}"] = None
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        yield pc.Remark(f"{SETTING} = {config!r} cannot be read: {error}", level=30, topic="sizes")
    for text in found:
        yield pc.Remark(text, level=30, topic="sizes")


def _limit(patch: str, values: Mapping[str, Any]) -> Optional[str]:
    kind = str(values.get("type")).rpartition(".")[2]
    if kind in _CONVOLUTIONS.get(patch, ()):
        groups = values.get("deform_groups", values.get("deformable_groups", 1))
        channels = values.get("in_channels", 64)
        if isinstance(groups, int) and groups > 1:
            return f"{kind} with deform_groups={groups} does not run on the kernel, which takes one deformable group"
        if isinstance(channels, int) and channels % 64:
            return f"{kind} with in_channels={channels} does not run on the kernel, which takes multiples of 64"
    bare = "type" not in values and {"embed_dims", "num_levels"} <= values.keys()  # mmdet 3 leaves the type out
    if patch == _ATTENTION and (bare or _ATTENTION_TYPE.search(kind)):
        sizes = {name: values.get(name, default) for name, default in _ATTENTION_DEFAULTS.items()}
        if not all(isinstance(size, int) and size > 0 for size in sizes.values()):
            return None
        heads, channels = sizes["num_heads"], sizes["embed_dims"] // sizes["num_heads"]
        what = "attention" if bare else kind
        if heads > MOST_HEADS:
            return f"{what} with num_heads={heads} does not run on the kernel, which takes up to {MOST_HEADS}"
        if channels % 8 or channels > MOST_CHANNELS:
            return (
                f"{what} with {channels} channels of a head (embed_dims={sizes['embed_dims']}, num_heads={heads}) does "
                f"not run on the kernel, which takes multiples of 8 up to {MOST_CHANNELS}"
            )
        if sizes["num_levels"] * sizes["num_points"] > 64:
            return f"{what} with more than 64 levels x points does not run on the kernel"
    return None


def declared(config: Path) -> Iterator[Declared]:
    """Yield the dictionaries of a configuration and of its bases, with the entries that are known.

    Raises:
        OSError, SyntaxError, UnicodeDecodeError: a file cannot be read as Python.
    """
    yield from _declared(config, {}, set())


def _declared(config: Path, names: dict[str, Any], seen: set[Path]) -> Iterator[Declared]:
    if config.resolve() in seen:
        return
    seen.add(config.resolve())
    tree = ast.parse(config.read_bytes(), str(config))
    own: dict[str, Any] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            own[statement.targets[0].id] = _value(statement.value, {**names, **own})
    bases = own.get("_base_", ())
    for base in [bases] if isinstance(bases, str) else bases if isinstance(bases, (list, tuple)) else ():
        if isinstance(base, str) and "::" not in base:  # else of another library
            yield from _declared(config.parent / base, names, seen)
    names.update(own)
    for node in ast.walk(tree):
        entries = dict(_entries(node))
        if entries:
            known = {key: _value(value, names) for key, value in entries.items()}
            yield Declared(config, node.lineno, {key: value for key, value in known.items() if value is not _UNKNOWN})  # type: ignore[attr-defined]


def _entries(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        yield from ((keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg)
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, value


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return names.get(node.id, _UNKNOWN)
    try:
        return ast.literal_eval(node)
    except ValueError:
        return _UNKNOWN
