"""What tests of the mx_driving.patcher interface share: a library, and a process without plugins and without a rank.

A test module imports the fixtures that it uses.
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from programs import Programs

import mx_driving_compat
from mx_driving_compat.messages.logger import PatcherLogger, patcher_logger
from mx_driving_compat.predefined import catalogue
from patchcore.process import RANK_VARIABLES
from patchcore.settings import Settings

LOGGER = logging.getLogger("mx_driving.patcher")

#: A library, and a module that has bound its names by value.
SHOP = {
    "shop": "from shop.tools import price",
    "shop.tools": """
        LIMIT = 3
        NOTHING = None
        TABLE = {"price": 1, "inner": {"key": 2}}
        def price(item, count=1): return ("price", item, count)
        def fill(basket): basket.append("done")
        def label(item): return ("label", item)
        class Till:
            def ring(self, item): return ("ring", item)
            @staticmethod
            def static(item): return ("static", item)
            @classmethod
            def klass(cls, item): return (cls.__name__, item)
            @property
            def size(self): return "size"
            again = ring
        class BigTill(Till): pass
        """,
    "shop.late": "def delivered(): return 'delivered'",
    "user": """
        from shop.tools import price, price as cost, Till
        def buy(item): return price(item)
        """,
    "kernels": """
        def price(item, count=1): return ("kernel", item, count)
        class Till: pass
        """,
}


def install_compat(programs: Programs) -> None:
    """Install this plugin, which the Python of the programs has not by itself."""
    (programs.site / "mx_driving_compat").symlink_to(Path(mx_driving_compat.__file__).parent)
    programs.install({}, "mx-driving-compat", mx_driving="mx_driving_compat.plugin")


def new(*args: Any, **kwargs: Any) -> Any:
    return ("new", *args)


@pytest.fixture
def shop(make_package: Any) -> SimpleNamespace:
    """The library, imported, by the last parts of its modules' names; ``shop.late`` and ``kernels`` are not."""
    make_package(SHOP)
    names = ("shop", "shop.tools", "user")
    return SimpleNamespace(**{name.rpartition(".")[2]: importlib.import_module(name) for name in names})


@pytest.fixture(autouse=True)
def no_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no plugin be installed, and no setting be made."""
    monkeypatch.setattr(catalogue, "_loaded", catalogue.Catalogue([], Settings()))


class Told(logging.Handler):
    """What the logger of the interface was told, by level."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[tuple[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append((record.levelname, record.getMessage()))

    def at(self, level: str) -> list[str]:
        return [message for name, message in self.messages if name == level]

    @property
    def warnings(self) -> list[str]:
        return self.at("WARNING")

    @property
    def summary(self) -> str:
        """The one summary."""
        (text,) = (message for _, message in self.messages if "PATCHER SUMMARY" in message)
        return text


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    """Let the logger be as in a new process on rank 0, and hear what it says."""
    for name in RANK_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    handler = Told()
    before = dict(vars(patcher_logger)), LOGGER.handlers[:], LOGGER.level, LOGGER.propagate
    vars(patcher_logger).update(vars(PatcherLogger()))
    LOGGER.handlers[:] = [handler]
    LOGGER.setLevel(logging.DEBUG)
    yield handler
    vars(patcher_logger).update(before[0])
    LOGGER.handlers[:], LOGGER.propagate = before[1], before[3]
    LOGGER.setLevel(before[2])


def spaces(*modules: ModuleType) -> dict[str, dict[str, Any]]:
    """Return copies of the namespaces of modules and of what is in them: classes and tables."""
    found: dict[str, dict[str, Any]] = {}
    for module in modules:
        found[module.__name__] = dict(vars(module))
        for name, value in vars(module).items():
            if isinstance(value, dict) and not name.startswith("__"):
                found[f"{module.__name__}:{name}"] = dict(value)
            elif isinstance(value, type):
                found[f"{module.__name__}:{name}"] = dict(vars(value))
    return found


def assert_identical(now: dict[str, dict[str, Any]], before: dict[str, dict[str, Any]]) -> None:
    """Compare what :func:`spaces` returned at two times: the same objects under the same names."""
    assert set(now) == set(before)
    for space, names in before.items():
        known = {name for name, value in names.items() if not _is_late(value)}
        assert {name for name, value in now[space].items() if not _is_late(value)} == known, space
        for name in known:
            assert now[space][name] is names[name] or name in ("__dict__", "__weakref__"), f"{space}.{name}"


def _is_late(value: Any) -> bool:
    """Tell whether a name of a package is a submodule, which an import puts there."""
    return isinstance(value, ModuleType) and sys.modules.get(value.__name__) is value


@pytest.fixture
def restored(shop: SimpleNamespace) -> Any:
    """The library, which is to be at the end what it was."""
    before = spaces(shop.shop, shop.tools, shop.user)
    yield shop
    assert_identical(spaces(shop.shop, shop.tools, shop.user), before)


def wrapping(tag: str) -> Any:
    """Return a target_wrapper that shows in what the function returns."""

    def wrap(function: Any) -> Any:
        def wrapped(*args: Any) -> Any:
            return (tag, function(*args))

        return wrapped

    return wrap
