"""The settings of a session are the same in every process, although JSON has no tuples."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchcore.builtin.run.session import settings_of
from patchcore.settings import POLICIES, Choice, LocalModule, Settings

TEXTS = st.text(max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
SETTINGS = st.builds(
    Settings,
    plugins=st.none() | st.lists(TEXTS, max_size=2).map(tuple),
    modules=st.lists(st.builds(LocalModule, TEXTS, st.none() | TEXTS), max_size=2).map(tuple),
    choices=st.lists(st.builds(Choice, st.booleans(), TEXTS, TEXTS, st.integers(0, 3)), max_size=2).map(tuple),
    on_failure=st.sampled_from(POLICIES),
    values=st.dictionaries(st.sampled_from(["report_dir", "brake", "log"]), st.none() | TEXTS),
    options=st.dictionaries(TEXTS, st.dictionaries(TEXTS, VALUES, max_size=2), max_size=2),
    variant=st.none() | TEXTS,
    count=st.booleans(),
    origins=st.dictionaries(TEXTS, TEXTS, max_size=2),
    given=st.just(()),
    library_versions=st.dictionaries(TEXTS, TEXTS, max_size=2),
)


@given(SETTINGS)
def test_settings_are_the_same_after_json(settings: Settings) -> None:
    again = settings_of(json.loads(json.dumps(settings._asdict())))
    assert again == settings
    assert [type(module) for module in again.modules] == [LocalModule] * len(settings.modules)
    assert [type(choice) for choice in again.choices] == [Choice] * len(settings.choices)


@pytest.mark.parametrize(
    "change",
    [{"plugins": 3}, {"modules": [["a", "b", "c"]]}, {"choices": [["a"]]}, {"unknown": 1}, {"modules": None}],
    ids=str,
)
def test_what_are_no_settings(change) -> None:
    with pytest.raises((TypeError, KeyError, ValueError)):
        settings_of({**Settings()._asdict(), **change})
    with pytest.raises(KeyError):
        settings_of({})
