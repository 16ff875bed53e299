"""Ctrl-C and signal handlers at every line of patchcore: what is said to be reverted is, and everything can be.

A trace function stands for the signal: it raises, or calls a handler, before the n-th line that patchcore executes.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest
from turns import EVERYTHING, in_turn

import patchcore as pc
from patchcore.engine.engine import ENGINE
from patchcore.errors import PatchError

HOME = Path(pc.__file__).parent
#: The files that change something.
TRACED = frozenset(
    str(file)
    for place in (
        "patcher.py",
        "declare/slots.py",
        "engine/application.py",
        "engine/engine.py",
        "engine/importing.py",
        "engine/journal.py",
        "engine/rebinding.py",
        "engine/writers.py",
        "objects/special_methods.py",
        "objects/type_slots.py",
        "builtin/imports/*.py",
    )
    for file in sorted(HOME.glob(place)) or [f"there is no {place}"]
)
assert not [file for file in TRACED if file.startswith("there is no")]

LIBRARY = """
def cost(x): return x
class Shop:
    limit = 3
    def price(self, x): return x
    @staticmethod
    def tax(x): return x
class Special(Shop):
    def __init__(self, x): self.x = x
TABLE = {"cost": cost}
"""
USER = "from hostile_library import cost, cost as renamed, Shop\nclass Mine:\n    price = staticmethod(cost)\n"
NAMES = ("hostile_library", "hostile_user", "hostile_late")


class Interrupt(BaseException):
    """What a signal handler raises: KeyboardInterrupt would end the test run where a test is wrong."""


def raises() -> None:
    raise Interrupt


class Trigger:
    """Calls ``handler`` before the ``number``-th line of patchcore that is executed inside the block."""

    def __init__(self, number: int, handler: Callable[[], None]) -> None:
        self.left = number
        self.handler = handler
        self.place = ""
        self.places: list[tuple[str, int]] = []

    def __enter__(self) -> Trigger:
        self.before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, *exc_info: object) -> None:
        sys.settrace(self.before)

    def _call(self, frame: types.FrameType, event: str, argument: object) -> Any:
        name = frame.f_code.co_filename
        return self._line if name in TRACED else None

    def _line(self, frame: types.FrameType, event: str, argument: object) -> Any:
        if event == "line":
            self.left -= 1
            self.places.append((frame.f_code.co_filename, frame.f_lineno))
            if not self.left:
                self.place = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                sys.settrace(None)
                self.handler()
        return self._line


def wrapper(original: Any, *args: Any, **kwargs: Any) -> Any:
    return original(*args, **kwargs)


def by_hand(module: Any, options: object) -> None:
    module.cost = len
    module.Shop.limit = 4
    module.added = 1


def patches_of(kind: str) -> list[pc.Patch]:
    """Return the patches of one kind of test."""
    replaced = pc.Replace("hostile_library:cost", lambda x: -x)
    kinds: dict[str, list[pc.Patch]] = {
        "replace": [pc.Patch("replace", replaced)],
        "wrap": [pc.Patch("wrap", pc.Wrap("hostile_library:Shop.price", wrapper))],
        "special method": [pc.Patch("special", pc.Wrap("hostile_library:Special.__new__", wrapper))],
        "several": [
            pc.Patch(
                "several",
                [
                    pc.Replace("hostile_library:cost", lambda x: -x, when_call=lambda x: True),
                    pc.Wrap("hostile_library:Shop.tax", wrapper),
                    pc.Replace('hostile_library:TABLE["cost"]', len),
                    pc.Replace("hostile_library:Shop.added", len, create=True),
                ],
            ),
            pc.Patch("stacked", pc.Wrap("hostile_library:cost", wrapper), after=["several"]),
            pc.Patch("on.the.alias", pc.Wrap("hostile_user:renamed", wrapper), after=["stacked"]),
        ],
        "by hand": [pc.Patch("call", pc.Call(by_hand, module="hostile_library"))],
        "pending": [pc.Patch("late", [pc.Wrap("hostile_late:cost", wrapper), replaced])],
        "imports": [
            pc.Patch("stub", pc.StubImport("hostile_missing")),
            pc.Patch("other", pc.ReplaceImport("hostile_late", with_="hostile_library")),
        ],
        "window": [pc.Patch("window", pc.WhileImporting("hostile_late", [replaced]))],
        "failing": [pc.Patch("failing", [replaced, pc.Replace("hostile_library:nothing.there", len)])],
    }
    return kinds[kind]


KINDS = ["replace", "wrap", "special method", "several", "by hand", "pending", "imports", "window", "failing"]


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, source in zip(NAMES, (LIBRARY, USER, "from hostile_library import cost\n")):
        (tmp_path / f"{name}.py").write_text(source)
    __import__("hostile_user")
    yield
    for name in NAMES:
        sys.modules.pop(name, None)


def everything() -> dict[str, Any]:
    """Return what the modules and their classes hold, and what patchcore has put elsewhere."""
    found: dict[str, Any] = {"meta_path": list(sys.meta_path), "watched": dict(ENGINE.watch._watched)}
    for name in NAMES:
        space = vars(sys.modules[name]) if name in sys.modules else {}
        for key, value in list(space.items()):
            if key == "__builtins__":
                continue
            found[f"{name}:{key}"] = dict(value) if isinstance(value, dict) else value
            if isinstance(value, type):
                found.update({f"{name}:{key}.{k}": v for k, v in vars(value).items() if k != "__weakref__"})
    return found


def check(patcher: pc.Patcher, before: dict[str, Any], where: str) -> None:
    """Revert; fail where anything is left of the patches, and where the report said something else before."""
    now = everything()
    for record in pc.Patcher.report(patcher).patches:
        if record.status == "reverted":
            assert now == before, f"{where}: {record.name} is said to be reverted"
    report = patcher.revert()
    forget()
    after = {key: value for key, value in everything().items() if key in before}
    different = {key: (value, before[key]) for key, value in after.items() if value is not before[key]}
    assert all(value == original for value, original in different.values()), f"{where}: {different}"
    assert {type(value) for value, _ in different.values()} <= {dict, list}, f"{where}: {different}"
    assert not ENGINE.active, where
    assert not list(ENGINE.journal), where
    assert not ENGINE.journal.retired, where
    assert not [r for r in report.patches if r.status in ("applied", "pending")], where


def lines(run: Callable[[], pc.Patcher]) -> list[int]:
    """Return the numbers of the lines to interrupt, each of another line of the source: in turn about twenty."""
    with Trigger(0, raises) as trigger:
        patcher = run()
    patcher.revert()
    forget()
    last = sorted({place: number for number, place in enumerate(trigger.places, 1)}.values())
    if EVERYTHING:
        return last
    # the first and the last lines are outside of every lock
    return sorted({last[0], *in_turn(last[:: len(last) // 40 + 1]), last[-1]})


def forget() -> None:
    for name in ("hostile_late", "hostile_missing", "hostile_taker"):
        sys.modules.pop(name, None)


def use() -> None:
    """Import what waits, and leave no trace of that."""
    try:
        __import__("hostile_late")
    except ImportError:
        pass


@pytest.mark.in_turn
@pytest.mark.parametrize("kind", KINDS)
def test_an_apply_that_is_interrupted_anywhere_leaves_nothing(kind: str, packages: None) -> None:
    def run() -> pc.Patcher:
        patchers.append(pc.Patcher(patches_of(kind)))
        patchers[-1].apply()
        use()
        return patchers[-1]

    patchers: list[pc.Patcher] = []
    before = everything()
    for number in lines(run):
        with Trigger(number, raises) as trigger, contextlib.suppress(Interrupt):
            run()
        sys.modules.pop("hostile_late", None)
        check(patchers[-1], before, f"{kind}, line {number}, {trigger.place}")


@pytest.mark.in_turn
@pytest.mark.parametrize("kind", KINDS)
def test_a_revert_that_is_interrupted_anywhere_is_done_all_the_same(kind: str, packages: None) -> None:
    def applied() -> pc.Patcher:
        patcher = pc.Patcher(patches_of(kind))
        patcher.apply()
        use()
        sys.modules["hostile_taker"] = taken = types.ModuleType("hostile_taker")
        taken.cost = sys.modules["hostile_library"].cost  # type: ignore[attr-defined]
        return patcher

    def run() -> pc.Patcher:
        patcher.revert()
        return patcher

    before = everything()
    patcher = applied()
    for number in lines(run):
        patcher = applied()
        taken = sys.modules["hostile_taker"]
        with Trigger(number, raises) as trigger, contextlib.suppress(Interrupt):
            run()
        where = f"{kind}, line {number}, {trigger.place}"
        sys.modules.pop("hostile_late", None)
        check(patcher, before, where)
        assert vars(taken)["cost"] is before["hostile_library:cost"], where


def other_patches() -> list[pc.Patch]:
    return [
        pc.Patch("other", [pc.Wrap("hostile_library:cost", wrapper), pc.Wrap("hostile_library:Shop.price", wrapper)])
    ]


@pytest.mark.in_turn
@pytest.mark.limit(
    "`Patcher.apply()` or `revert()` in a signal handler that interrupts another one in the middle of a write",
    told="`PatchError` in the handler, and nothing is changed",
)
@pytest.mark.parametrize("what", ["apply", "revert", "same"])
@pytest.mark.parametrize("under", ["apply", "revert"])
@pytest.mark.parametrize("kind", ["several", "pending"])
def test_a_handler_that_patches_in_the_middle_of_it(kind: str, under: str, what: str, packages: None) -> None:
    def start() -> pc.Patcher:
        patcher = pc.Patcher(patches_of(kind))
        if under == "revert":
            patcher.apply()
        return patcher

    def run() -> pc.Patcher:
        patcher.apply() if under == "apply" else patcher.revert()
        use()
        return patcher

    def handler() -> None:
        try:
            patcher.revert() if what == "revert" else other.apply()
            told.append("")
        except PatchError as error:
            told.append(str(error))

    before = everything()
    patcher = start()
    numbers = lines(run)
    said = set()
    for number in numbers:
        patcher = start()
        other = pc.Patcher(patches_of(kind) if what == "same" else other_patches())
        told: list[str] = []
        with Trigger(number, handler) as trigger:
            run()
        where = f"{kind}, line {number}, {trigger.place}"
        said.update(told)
        if told == [""] and what == "apply":
            assert sys.modules["hostile_library"].Shop.price.__wrapped__, where
        sys.modules.pop("hostile_late", None)
        other.revert()
        check(patcher, before, where)
    assert "" in said
    assert all("nothing was changed" in text for text in said if text)
    assert len(said) == 2


SIGNALS = """
import signal, sys, types
import patchcore as pc

library = types.ModuleType("library")
exec("def cost(x): return x\\nclass Shop:\\n    def __init__(self, x): self.x = x\\n", vars(library))
user = types.ModuleType("user")
sys.modules.update(library=library, user=user)
user.cost = original = library.cost


def wrapper(original, *args, **kwargs):
    return original(*args, **kwargs)


def patcher():
    return pc.Patcher([
        pc.Patch("one", [pc.Wrap("library:cost", wrapper), pc.Wrap("library:Shop.__new__", wrapper)]),
        pc.Patch("two", pc.Wrap("library:cost", wrapper), after=["one"]),
    ])


def interrupt(signum, frame):
    raise KeyboardInterrupt


signal.signal(signal.SIGALRM, interrupt)
interrupted = 0
for number in range(150):
    current = patcher()
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-5 + (number % 50) * 6e-5)
        current.apply()
        current.revert()
    except KeyboardInterrupt:
        interrupted += 1
    try:
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        interrupted += 1
    report = current.revert()
    assert library.cost is user.cost is original, number
    assert "__new__" not in vars(library.Shop) and library.Shop(3).x == 3, number
    assert not report.with_status("applied"), number
from patchcore.engine.engine import ENGINE
print("interrupted" if interrupted else "never", len(list(ENGINE.journal)), ENGINE.active)
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="Windows has no timers that signal")
def test_real_signals() -> None:
    done = subprocess.run([sys.executable, "-c", SIGNALS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split(maxsplit=1)[1] == "0 []\n"


def test_a_lock_that_an_exception_left_behind_is_released(packages: None) -> None:
    patcher = pc.Patcher(patches_of("replace"))
    ENGINE.journal.lock.acquire()
    patcher.apply()
    assert not ENGINE.journal.is_busy
    patcher.revert()


def test_a_block_that_is_interrupted_can_be_reverted(packages: None) -> None:
    def run() -> pc.Patcher:
        patchers.append(pc.Patcher(patches_of("several")))
        with patchers[-1]:
            pass
        return patchers[-1]

    patchers: list[pc.Patcher] = []
    before = everything()
    for number in lines(run):
        with Trigger(number, raises) as trigger, contextlib.suppress(Interrupt):
            run()
        check(patchers[-1], before, f"line {number}, {trigger.place}")
