"""Records are dataclasses in every respect but one: their methods are made when the first object is."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import threading
from typing import Any

import pytest

from patchcore.objects.records import dataclass


def new_record() -> Any:
    @dataclass(frozen=True)
    class Record:
        """A record."""

        name: str
        count: int = 0
        places: dict[str, int] = dataclasses.field(default_factory=dict)

    return Record


def test_nothing_is_made_before_the_first_object() -> None:
    record = new_record()
    assert not dataclasses.is_dataclass(record)
    made = record("a")
    assert dataclasses.is_dataclass(record)
    assert made == record("a", 0, places={})
    assert type(record("b").places) is dict


def test_objects_are_those_of_a_frozen_dataclass() -> None:
    record = new_record()
    first, second = record("a", 1), record(name="a", count=1)
    assert first == second
    assert first != record("a", 2)
    assert repr(first).endswith("Record(name='a', count=1, places={})")
    assert dataclasses.replace(first, count=3) == record("a", 3)
    assert dataclasses.asdict(first) == {"name": "a", "count": 1, "places": {}}
    assert copy.copy(first) == copy.deepcopy(first) == first
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.name = "b"
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'name'"):
        record()


def test_a_call_that_does_not_fit_the_first_object_spoils_nothing() -> None:
    record = new_record()
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'name'"):
        record()
    assert record("a").name == "a"


def test_threads_that_make_the_first_objects_together_all_get_theirs() -> None:
    for _ in range(50):
        record, made, start = new_record(), [], threading.Barrier(4)

        def make(record: Any = record, made: list[Any] = made, start: Any = start) -> None:
            start.wait()
            made.append(record("a", places={"x": 1}))

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made == [record("a", places={"x": 1})] * 4


def test_a_report_from_another_process_is_whole_where_none_was_made_before(run_python: Any) -> None:
    from patchcore.report import PatchRecord, Report

    report = Report((PatchRecord("p", "applied", "", "plugin", None, None),))
    shown = run_python(
        "import pickle\n"
        f"report = pickle.loads({pickle.dumps(report)!r})\n"
        "assert report.to_dict()['patches'][0]['name'] == 'p'\n"
        f"assert report == pickle.loads({pickle.dumps(report)!r})\n"
        "print(report.patches[0])"
    )
    assert shown.startswith("PatchRecord(name='p', status='applied'")
