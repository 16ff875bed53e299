"""torch_markers without torch: the text of ranges, ranges of one's own, what is wrapped."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

import patchcore as pc
import torch_markers as markers
from patchcore.errors import DeclarationError, SettingsError
from torch_markers import ranges, text

constants = strategies.none() | strategies.booleans() | strategies.integers() | strategies.floats()
strings = strategies.text(strategies.characters(), max_size=text.LONGEST)


class Log:
    """A marker that remembers what is opened and closed."""

    def __init__(self, *, ready: bool = True) -> None:
        self.events: list[Any] = []
        self._ready = ready

    def ready(self) -> bool:
        return self._ready

    def open(self, said: str) -> int:
        self.events.append(markers.parse(said))
        return len(self.events)

    def close(self, token: int) -> None:
        self.events.append(token)

    def call(self, function: Any, args: Any, kwargs: Any) -> str:
        return text.describe(op=function.__name__, arguments=len(args) + len(kwargs))


@pytest.fixture
def log() -> Any:
    made = Log()
    ranges.use(made)
    yield made
    ranges.use(None)


@hypothesis.given(strategies.dictionaries(strategies.sampled_from("abc"), constants | strings, min_size=1))
def test_text_is_harmless_wherever_it_is_stored_and_reads_back(details: dict[str, Any]) -> None:
    said = text.describe(**details)
    assert said.isascii()
    assert said.isprintable()
    assert json.loads(f'"{said}"') == said, "an unescaped name leaves a trace valid"
    found = markers.parse(said)
    assert found is not None
    for key, value in details.items():
        if isinstance(value, float) and not math.isfinite(value):
            assert found[key] == repr(value)
        elif isinstance(value, int) and abs(value).bit_length() >= 64:
            assert found[key] == f"{abs(value).bit_length()} bits"
        else:
            assert found[key] == value


def test_long_strings_are_cut() -> None:
    assert markers.parse(text.describe(op="x" * 1000)) == {"op": "x" * text.LONGEST + "..."}


@pytest.mark.parametrize("name", ["aten::add", "{'op':", "{'op':1}x", "['op']", "", "{'a':'%FF'}"])
def test_names_of_others_are_no_markers(name: str) -> None:
    assert markers.parse(name) is None


def test_a_range_is_closed_when_its_block_raises(log: Log) -> None:
    with pytest.raises(ValueError, match="inside"), markers.range("decode", boxes=3):
        raise ValueError("inside")
    assert log.events == [{"op": "decode", "boxes": 3}, 1]


def test_a_decorated_function_may_call_itself(log: Log) -> None:
    @markers.range("count")
    def count(number: int) -> int:
        return number and count(number - 1)

    assert count(1) == 0
    assert log.events == [{"op": "count"}, {"op": "count"}, 2, 1]


def test_a_range_that_is_open_when_marking_ends_is_closed_by_who_opened_it(log: Log) -> None:
    with markers.range("outer"):
        ranges.use(None)
    assert log.events == [{"op": "outer"}, 1]


def test_while_nobody_listens_nothing_is_opened() -> None:
    silent = Log(ready=False)
    ranges.use(silent)
    try:
        with markers.range("decode"):
            assert markers.mark_call(len, "abc") == 3
    finally:
        ranges.use(None)
    assert silent.events == []


def test_a_wrapped_call_that_raises_is_closed(log: Log) -> None:
    with pytest.raises(TypeError):
        markers.mark_call(len, 3)
    assert log.events == [{"op": "len", "arguments": 1}, 1]


@pytest.mark.parametrize(("obj", "name"), [(SimpleNamespace(), "run"), (Log, ""), (type("Local", (), {}), "")])
def test_what_has_no_name_of_its_own_cannot_be_wrapped(obj: Any, name: str) -> None:
    with pytest.raises(DeclarationError, match="expected a module or a class of a module"):
        markers.wrap(obj, name)


def test_wrapping_follows_names_bound_by_value(make_package: Any, log: Log) -> None:
    make_package({"shop": "", "shop.tools": "def price(): return 3", "shop.till": "from shop.tools import price as p"})
    import shop.till  # type: ignore[import-not-found]
    import shop.tools  # type: ignore[import-not-found]

    original = shop.tools.price
    with markers.wrap(shop.tools, "price"):
        assert shop.till.p() == 3
    assert log.events == [{"op": "price", "arguments": 0}, 1]
    assert shop.till.p is original


def test_without_a_plugin_that_marks_starting_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATCHCORE_PLUGINS", "")
    with pytest.raises(SettingsError, match=re.escape(pc.install_command("torch-markers"))):
        markers.start()


def test_importing_markers_imports_no_torch() -> None:
    code = "import sys, torch_markers; sys.exit('torch' in sys.modules or 'patchcore.patcher' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
