"""ranks.py: ranks compare what they patch when they form a process group; here with a stand-in for torch."""

from __future__ import annotations

import importlib
import json
import logging
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from reports import LABEL, PRICE, SHOP, patcher
from test_agreement import MemoryStore

import patchcore as pc
from patchcore.builtin.run.process_report import ProcessReport
from patchcore.builtin.run.session import Session
from patchcore.builtin.run.timeline import COMPARED, TIMELINE
from patchcore.builtin.shared.manifest import make_manifest
from patchcore.engine.engine import ENGINE
from patchcore.settings import Settings
from patchcore_torch.ranks.agreement import Comparison
from patchcore_torch.ranks.comparing import compare_when_grouped

TORCH = {
    "torch": "",
    "torch.distributed": "from .distributed_c10d import get_rank, get_world_size, init_process_group",
    "torch.distributed.distributed_c10d": """
        rank, size, store, calls, error = 0, 2, None, [], None

        def get_rank():
            return rank

        def get_world_size():
            return size

        def _get_default_store():
            if store is None:
                raise ValueError("Default process group has not been initialized")
            return store

        def init_process_group(*args, **kwargs):
            if error is not None:
                raise error
            calls.append((args, kwargs))
            return "group"
        """,
    "trainer": "from torch.distributed import init_process_group as init",
}
HOST = os.uname().nodename
OFFER, ANSWER, CONFIRMED = "patchcore/ranks/offer", "patchcore/ranks/answer/1", "patchcore/ranks/confirmed/1"


@pytest.fixture
def job(make_package: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Any]:
    """Return a function that begins the process of a rank, and gives a trainer that can initialise the group."""
    make_package({**SHOP, **TORCH})
    caplog.set_level(logging.INFO, "patchcore")
    patchers = []

    def begin(*patches: pc.Patch, rank: int, size: int = 2, store: Any = None, on_failure: str = "warn") -> Any:
        applied = patcher(
            *patches, settings=Settings(on_failure=on_failure, values={"report_dir": str(tmp_path / "reports")})
        )
        patchers.append(applied)
        applied.apply()
        compare_when_grouped(applied, ProcessReport(Session("r1", 1, applied.settings), applied, "rank"))
        c10d = importlib.import_module("torch.distributed.distributed_c10d")
        vars(c10d).update(rank=rank, size=size, store=store)
        caplog.clear()
        return SimpleNamespace(c10d=c10d, init=importlib.import_module("trainer").init, patcher=applied)

    yield begin
    for applied in patchers:
        applied.revert()
    for application in list(ENGINE._active.get("patchcore.ranks", ())):  # stays applied to the end of a process
        for holder in list(application.holders):
            holder.revert()


class PeerStore(MemoryStore):
    """A store with a second rank that answers as soon as this process has written its part."""

    def __init__(self, peer: Comparison | None = None, **peer_of: Any) -> None:
        super().__init__()
        self._of_rank_1 = peer_of
        self._peer = peer

    def check(self, keys: Sequence[str]) -> bool:
        if self._of_rank_1 and OFFER in self.values and self._peer is None:
            self._peer = Comparison(MemoryStore(), 1, 2, self._of_rank_1["manifest"], HOST)
            self._peer._store = self.alone
        if self._peer is not None and keys[0] in (ANSWER, CONFIRMED):
            self._peer.run(0)
        return super().check(keys)

    @property
    def alone(self) -> MemoryStore:
        """The same values, without the peer."""
        store = MemoryStore()
        store.values = self.values
        return store


def presented(*patches: pc.Patch) -> PeerStore:
    """Return a store in which rank 0 has offered what it patches."""
    store = PeerStore()
    store._peer = Comparison(store.alone, 0, 2, make_manifest(patcher(*patches).plan()), HOST)
    return store


def answered(*patches: pc.Patch) -> PeerStore:
    """Return a store in which rank 1, with these patches, answers to what rank 0 has yet to offer."""
    return PeerStore(manifest=make_manifest(patcher(*patches).plan()))


def said(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records if "rank" in record.getMessage()]


LINE = "rank 1 differs from rank 0: patch shop.label: apply; on rank 0: no plugin contributes it"


@pytest.mark.parametrize("on_failure", ["warn", "ignore", "raise"])
def test_ranks_that_agree_hear_nothing(job: Any, caplog: pytest.LogCaptureFixture, on_failure: str) -> None:
    store = presented(PRICE)
    assert job(PRICE, rank=1, store=store, on_failure=on_failure).init("gloo") == "group"
    assert said(caplog) == []
    assert json.loads(store.get(ANSWER))["differences"] == []


def test_a_rank_says_quietly_how_it_differs(job: Any, caplog: pytest.LogCaptureFixture) -> None:
    store = presented(PRICE)
    assert job(PRICE, LABEL, rank=1, store=store).init("gloo") == "group"
    assert said(caplog) == [("INFO", LINE)]
    assert len(json.loads(store.get(ANSWER))["differences"]) == 1


@pytest.mark.parametrize(("on_failure", "level"), [("warn", "WARNING"), ("ignore", "INFO")])
def test_rank_0_says_it_for_all(job: Any, caplog: pytest.LogCaptureFixture, on_failure: str, level: str) -> None:
    store = answered(PRICE, LABEL)
    trainer = job(PRICE, rank=0, store=store, on_failure=on_failure)
    assert trainer.init("gloo") == "group"
    assert said(caplog) == [(level, LINE)]
    presented = json.loads(store.get("patchcore/ranks/manifest"))["manifest"]
    assert presented == make_manifest(trainer.patcher.applied_plan)


@pytest.mark.parametrize(("patches", "detail"), [((PRICE,), "2 ranks have the same patches"), ((PRICE, LABEL), LINE)])
def test_the_comparison_is_on_the_timeline(
    job: Any, patches: tuple[pc.Patch, ...], detail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = len(TIMELINE._events)
    monkeypatch.setattr(TIMELINE, "_limit", noted + 100)  # other tests have filled it
    job(*patches, rank=1, store=presented(PRICE)).init("gloo")
    (event,) = [event for event in TIMELINE._events[noted:] if event.kind == COMPARED]
    assert event.detail == detail
    assert event.took is not None


def test_under_the_policy_to_raise_no_group_is_made_of_ranks_that_differ(job: Any) -> None:
    with pytest.raises(pc.PatchError) as e:
        job(PRICE, LABEL, rank=1, store=presented(PRICE), on_failure="raise").init("gloo")
    assert str(e.value) == LINE


def test_rank_0_raises_too(job: Any) -> None:
    with pytest.raises(pc.PatchError, match=r"rank 1 differs from rank 0: patch shop\.label"):
        job(PRICE, rank=0, store=answered(PRICE, LABEL), on_failure="raise").init("gloo")


def test_the_call_goes_through_as_it_is(job: Any) -> None:
    trainer = job(rank=0, size=1)
    assert trainer.init("gloo", rank=0, world_size=1) == "group"
    assert trainer.c10d.calls == [(("gloo",), {"rank": 0, "world_size": 1})]


def test_a_single_rank_has_nobody_to_compare_with(job: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert job(PRICE, rank=0, size=1, store=object()).init() == "group"
    assert caplog.records == []


@pytest.mark.parametrize("store", [None, object()], ids=["MPI", "another kind"])
@pytest.mark.parametrize("on_failure", ["warn", "raise"])
def test_without_a_store_training_goes_on(
    job: Any, caplog: pytest.LogCaptureFixture, store: Any, on_failure: str
) -> None:
    assert job(PRICE, rank=0, store=store, on_failure=on_failure).init() == "group"
    ((level, message),) = said(caplog)
    assert level == "INFO"
    assert message.startswith("the ranks could not be compared: ")


def test_what_the_store_holds_may_be_of_another_patchcore(job: Any, caplog: pytest.LogCaptureFixture) -> None:
    store = presented(PRICE)
    store.set(
        "patchcore/ranks/manifest",
        json.dumps({**json.loads(store.get("patchcore/ranks/manifest")), "manifest": {"patches": 3}}),
    )
    assert job(PRICE, LABEL, rank=1, store=store).init() == "group"
    ((level, message),) = said(caplog)
    assert level == "INFO"
    assert message.startswith("rank 1 cannot be compared with rank 0: ")
    assert message.endswith("; install the same patchcore for every rank")


class Clock:
    """A clock that moves when somebody sleeps: at once in the main thread, and when it is released in others."""

    def __init__(self) -> None:
        self.now = 0.0
        self.released = threading.Event()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        if threading.current_thread() is not threading.main_thread():
            assert self.released.wait(60)
        self.now += seconds


def listener(before: set[threading.Thread]) -> threading.Thread:
    """Return the thread that goes on with a comparison; those that earlier tests have left aside."""
    (thread,) = [each for each in set(threading.enumerate()) - before if each.name == "patchcore.ranks"]
    return thread


def test_a_rank_that_does_not_answer_does_not_stop_the_others(
    job: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group is there after two seconds; a thread waits for a minute, and logs what became of it."""
    clock, before = Clock(), set(threading.enumerate())
    monkeypatch.setattr("patchcore_torch.ranks.agreement.time", clock)
    assert job(PRICE, rank=0, store=MemoryStore()).init() == "group"
    thread = listener(before)
    assert said(caplog) == []
    clock.released.set()
    thread.join(60)
    assert clock.now > 60
    ((level, message),) = said(caplog)
    assert (level, message.partition(" (")[0]) == ("WARNING", "rank 1 sends no patches to compare")


def test_a_rank_that_is_late_is_compared_by_the_thread(
    job: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("patchcore_torch.ranks.comparing._AT_ONCE", 0)
    store, before = MemoryStore(), set(threading.enumerate())
    job(PRICE, rank=0, store=store).init()
    thread = listener(before)
    late = Comparison(store, 1, 2, make_manifest(patcher(PRICE, LABEL).plan()), HOST)
    assert late.run(60)
    thread.join(60)
    ((level, message),) = said(caplog)
    assert level == "WARNING"
    assert message.endswith(LINE.partition(": ")[2])


def test_under_the_policy_to_raise_a_rank_that_does_not_answer_is_an_error(
    job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("patchcore_torch.ranks.agreement.PATIENCE", 0.2)
    with pytest.raises(pc.PatchError, match="rank 1 sends no patches to compare"):
        job(PRICE, rank=0, store=MemoryStore(), on_failure="raise").init()


def test_only_the_first_group_is_compared(job: Any, caplog: pytest.LogCaptureFixture) -> None:
    trainer = job(PRICE, rank=0, store=answered(PRICE, LABEL))
    assert [trainer.init(), trainer.init()] == ["group", "group"]
    assert said(caplog) == [("WARNING", LINE)]


def test_a_group_that_fails_is_not_compared_and_the_next_one_is(job: Any, caplog: pytest.LogCaptureFixture) -> None:
    trainer = job(PRICE, rank=0, store=answered(PRICE, LABEL))
    trainer.c10d.error = ConnectionError("nobody is there")
    with pytest.raises(ConnectionError, match="nobody is there"):
        trainer.init()
    assert said(caplog) == []
    trainer.c10d.error = None
    trainer.init()
    assert said(caplog) == [("WARNING", LINE)]


def test_the_report_is_written_when_the_ranks_meet(job: Any, tmp_path: Path) -> None:
    trainer = job(PRICE, rank=0, store=answered(PRICE))
    assert not (tmp_path / "reports").exists()
    trainer.init()
    (path,) = (tmp_path / "reports").iterdir()
    content: Mapping[str, Any] = json.loads(path.read_text())
    assert [patch["name"] for patch in content["patches"]] == ["shop.price"]  # and nothing of ours


def test_a_report_that_cannot_be_made_does_not_stop_training(job: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, **named: Any) -> None:
        raise TypeError("no report")

    monkeypatch.setattr(ProcessReport, "_to_json", fail)
    assert job(PRICE, rank=0, store=answered(PRICE)).init() == "group"
