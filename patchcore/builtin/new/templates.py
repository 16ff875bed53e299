"""The texts of a new plugin's files, except those made from a ``patch.py``."""

from __future__ import annotations

from collections.abc import Sequence

from patchcore import __version__
from patchcore.builtin.new.about import PluginMetadata
from patchcore.builtin.new.names import PluginNames

__all__ = ["example_plugin", "example_readme", "example_test", "render_package", "render_pyproject"]

_PYPROJECT = """\
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "{distribution}"
version = "0.1.0"
description = "{description}"
readme = "README.md"
requires-python = ">=3.9"
{about}dependencies = [{dependencies}]
{urls}
[project.entry-points.npu_patches]
{plugin} = "{package}.plugin"

[tool.hatch.build.targets.wheel]
packages = ["{package}"]

[tool.pytest.ini_options]
testpaths = ["tests"]

[tool.mypy]
strict = true
files = ["{package}", "tests"]
{unchecked}
[tool.ruff]
line-length = 120
{exclusion}
[tool.ruff.lint]
extend-select = ["E", "I"]
"""

_EXCLUDED = 'extend-exclude = ["{package}/replacements.py"]  # a copy, with the style of its authors\n'

_UNCHECKED = """
[[tool.mypy.overrides]]
module = "{package}.replacements"
ignore_errors = true
"""

_PACKAGE = '"""The plugin {plugin} of patchcore: see plugin.py, where its patches are declared."""\n'

_EXAMPLE_PLUGIN = '''\
"""The patches of this plugin, which its entry point names."""

from __future__ import annotations

import patchcore as pc

_ALWAYS = str.maketrans({{"&": "&amp;", "<": "&lt;", ">": "&gt;"}})
_QUOTES = str.maketrans({{'"': "&quot;", "'": "&#x27;"}})


# An example that runs wherever Python does, and changes no result. In its place goes what your model needs on the NPU:
#
#     @pc.patch("my_model.attention:Attention.forward", requires="my_model>=1", needs="torch_npu")
#     def attention_forward(self, query, key, value): ...
#
# The target is "package.module:Class.attribute" and is not imported until the program imports it. Import libraries
# inside the function, so that `patchcore list` works where they are not installed. Several functions that belong
# together, and what to do about imports:
#
#     ATTENTION = pc.Patch(
#         "{plugin}.attention",
#         [
#             pc.Replace("my_model.attention:Attention.forward", "{package}.attention:forward"),
#             pc.StubImport("flash_attn"),
#         ],
#     )
@pc.patch("html:escape", name="{plugin}.escape")
def escape(s: str, quote: bool = True) -> str:
    """Escape by tables, with the results of the original."""
    return s.translate(_ALWAYS | _QUOTES if quote else _ALWAYS)


@pc.hookimpl
def register_patches() -> list[pc.Patch]:
    """Return the patches, in the order in which they apply."""
    return [escape]
'''

_EXAMPLE_TEST = '''\
"""The plugin's patches do what they are for, and leave nothing behind."""

from __future__ import annotations

import html

import patchcore as pc
import pytest

from {package} import plugin


@pytest.mark.parametrize("quote", [True, False])
@pytest.mark.parametrize("text", ["", "a", "<a href='b'>&amp;</a>", '"', "é"])
def test_the_results_are_those_of_the_original(text: str, quote: bool) -> None:
    expected = html.escape(text, quote)
    with pc.Patcher(plugin.register_patches()):
        assert html.escape(text, quote) == expected


def test_the_patch_is_in_force_inside_the_block_only() -> None:
    original = html.escape
    with pc.Patcher(plugin.register_patches()) as patcher:
        assert patcher.report().ok
        assert html.escape is not original
    assert html.escape is original


def test_nothing_is_to_be_said_against_the_plan() -> None:
    plan = pc.Patcher(plugin.register_patches()).plan()
    assert [(entry.patch.name, entry.verdict) for entry in plan] == [("{plugin}.escape", "apply")]
'''

_EXAMPLE_README = """\
# {distribution}

Patches, as a plugin of patchcore. They are declared in `{package}/plugin.py`.

    python -m pip install -e .
    python -m pip install pytest
    python -m pytest
    patchcore list                      # the patches, and whether they are applied here
    patchcore explain html:escape       # what is in this place, and the difference
    patchcore run train.py              # a program, with them

The patch in there is an example. Replace it, and its test, with your own.
"""


def render_pyproject(
    names: PluginNames,
    description: str,
    about: PluginMetadata,
    *,
    dependencies: Sequence[str] = (),
    has_copy: bool = False,
) -> str:
    """Return ``pyproject.toml``.

    Args:
        names: of the plugin.
        description: one line.
        about: author, licence and source.
        dependencies: requirements besides patchcore.
        has_copy: whether the package has a ``replacements.py`` that is neither formatted nor checked.

    Examples:
        >>> from patchcore.plugin import PluginMetadata, PluginNames, render_pyproject
        >>> text = render_pyproject(PluginNames.derive("shop-npu-patches"), "Patches of shop", PluginMetadata())
        >>> 'name = "shop-npu-patches"' in text
        True
    """
    listed = ", ".join(f'"{dependency}"' for dependency in (f"patchcore>={__version__}", *dependencies))
    exclusion, unchecked = (_EXCLUDED, _UNCHECKED) if has_copy else ("", "")
    return _PYPROJECT.format(
        **names._asdict(),
        description=description,
        about=about.lines,
        urls=about.urls,
        dependencies=listed,
        exclusion=exclusion.format(package=names.package),
        unchecked=unchecked.format(package=names.package),
    )


def render_package(names: PluginNames) -> str:
    """Return the package's ``__init__.py``.

    Examples:
        >>> from patchcore.plugin import PluginNames, render_package
        >>> "shop" in render_package(PluginNames.derive("shop-npu-patches"))
        True
    """
    return _PACKAGE.format(plugin=names.plugin)


def example_plugin(names: PluginNames) -> str:
    """Return a ``plugin.py`` with one patch."""
    return _EXAMPLE_PLUGIN.format(**names._asdict())


def example_test(names: PluginNames) -> str:
    """Return the test of the example."""
    return _EXAMPLE_TEST.format(**names._asdict())


def example_readme(names: PluginNames) -> str:
    """Return the example's ``README.md``."""
    return _EXAMPLE_README.format(**names._asdict())
