"""Compares the patches of ranks over the store of their process group.

Launchers keep one store over the restarts of a job: torchrun with the c10d rendezvous does, and the keys of the last
generation are still there. TORCHELASTIC_RESTART_COUNT differs between nodes, so it does not name a generation. The
ranks agree on one themselves: every process draws an id, rank 0 offers its patches under its id, the others answer to
that id with their own, and rank 0 confirms each answer to the id that it came from. A rank that has answered to an
offer of the last generation is not confirmed, and answers again when the new offer is there.

Rank 0 offers a digest. Only ranks with another one read its manifest.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Optional, Protocol

from patchcore.plugin import compare_manifests, counted, describe_error

__all__ = ["PATIENCE", "Comparison", "Generation", "Store"]

#: How long a rank waits for the others, seconds. A rank that is not patched never answers.
PATIENCE = 60.0

_KEY = "patchcore/ranks"
_OFFER, _MANIFEST = f"{_KEY}/offer", f"{_KEY}/manifest"
_ANSWER, _CONFIRMED = f"{_KEY}/answer/{{}}".format, f"{_KEY}/confirmed/{{}}".format
_FIRST_STEP, _LONGEST_STEP = 0.02, 0.5  # seconds
_MOST_HOSTS = 3  # that one message names


class Store(Protocol):
    """The used part of ``torch.distributed.Store``."""

    def set(self, key: str, value: str) -> None:
        """Set ``key``."""

    def get(self, key: str) -> bytes:
        """Return the value of ``key``, once there is one."""

    def check(self, keys: Sequence[str]) -> bool:
        """Return whether there are values for ``keys``."""


class Generation(NamedTuple):
    """The ranks that were started together: what a restart of the job replaces.

    Args:
        group: the id of the first generation of these ranks.
        number: 1 for the first generation in a store, one more after each restart.
        clock: seconds by which the clock of this process is ahead of the clock of rank 0.
    """

    group: str
    number: int
    clock: float = 0.0


class _Answer(NamedTuple):
    """The differences of a rank from rank 0: subject, its own value, the value of rank 0."""

    host: str
    differences: tuple[tuple[str, str, str], ...]
    fault: str = ""


class Comparison:
    """The comparison of one rank with the others; every rank makes one and calls :meth:`run`.

    Args:
        store: shared by the ranks.
        rank: of this process.
        size: the number of ranks.
        manifest: of this process.
        host: the name of this machine.
    """

    def __init__(self, store: Store, rank: int, size: int, manifest: Mapping[str, Any], host: str = "") -> None:
        #: The generation that the ranks have agreed on; ``None`` until they have.
        self.generation: Optional[Generation] = None
        self.size = size
        self._store = store
        self._rank = rank
        self._manifest = manifest
        self._host = host
        self._id = os.urandom(8).hex()
        self._answered = ""  # the id of the offer that this rank has answered to
        self._host_of_0 = ""
        self._left = set(range(1, size)) if rank == 0 else {rank}  # whose answers are not confirmed yet
        self._answers: dict[int, _Answer] = {}
        self._reported: set[int] = set()
        if rank == 0:
            self._offer()

    @property
    def is_complete(self) -> bool:
        """True if rank 0 has heard every rank, or another rank was confirmed."""
        return not self._left

    def run(self, patience: float, go_on: Callable[[], bool] = lambda: True) -> bool:
        """Exchange patches until the comparison is complete; return whether it is.

        Args:
            patience: seconds to wait for the others, all together.
            go_on: called between two looks at the store; false ends the wait.

        Raises:
            Exception: the store is gone.
        """
        deadline, step = time.monotonic() + patience, _FIRST_STEP
        while True:
            self._hear() if self._rank == 0 else self._answer()
            if self.is_complete or time.monotonic() > deadline or not go_on():
                return self.is_complete
            time.sleep(step)  # to wait in the store would be loud, and deaf to signals
            step = min(step * 1.2, _LONGEST_STEP)

    def differences(self) -> list[str]:
        """Return the differences that were heard since the last call, a line each.

        Rank 0 gets those of every rank, the others get their own.
        """
        if self._rank and not self.is_complete:
            return []  # the offer may be one of the last generation
        new = {rank: answer for rank, answer in sorted(self._answers.items()) if rank not in self._reported}
        self._reported.update(new)
        lines: dict[tuple[str, str], list[int]] = {}
        for rank, answer in new.items():
            if answer.fault:
                lines.setdefault(("", answer.fault), []).append(rank)
            for subject, one, other in answer.differences:
                lines.setdefault((f"{subject}: {one}", other), []).append(rank)
        return [self._line(ranks, *texts) for texts, ranks in lines.items()]

    def silent(self) -> list[str]:
        """Return a line on the ranks that have sent nothing."""
        if self.is_complete:
            return []
        start = "start every rank with patchcore run"
        if self._rank:
            return [f"rank 0 sends no patches to compare; {start}"]
        missing = _ranks(self._left)
        by_host: dict[str, list[int]] = {self._host: [0]}
        for rank, answer in sorted(self._answers.items()):
            by_host.setdefault(answer.host, []).append(rank)
        heard = ", ".join(f"{_ranks(ranks)} on {host}" for host, ranks in list(by_host.items())[:_MOST_HOSTS] if host)
        more = (
            f" and those of {counted(len(by_host) - _MOST_HOSTS, 'other host')}" if len(by_host) > _MOST_HOSTS else ""
        )
        does = f" ({heard}{more} {'do' if len(self._answers) else 'does'})" if heard else ""
        return [f"{missing} {'sends' if len(self._left) == 1 else 'send'} no patches to compare{does}; {start}"]

    def _line(self, ranks: Sequence[int], text: str, other: str) -> str:
        """Return the line on a difference, or on a fault (without ``text``), of some ranks."""
        hosts = list(dict.fromkeys(self._answers[rank].host for rank in ranks))
        subject = f"{_ranks(ranks)}{_on(hosts) if hosts != [self._host_of_0] else ''}"
        first = f"rank 0{_on([self._host_of_0]) if hosts != [self._host_of_0] else ''}"
        several = len(ranks) > 1
        if not text:
            return f"{subject} cannot be compared with {first}: {other}; install the same patchcore for every rank"
        return f"{subject} {'differ' if several else 'differs'} from {first}: {text}; on rank 0: {other}"

    # --- rank 0 -------------------------------------------------------------------------------------------------------

    def _offer(self) -> None:
        former = self._read(_OFFER)
        self.generation = Generation(str(former.get("group") or self._id), int(former.get("number") or 0) + 1)
        self._host_of_0 = self._host
        self._set(_MANIFEST, id=self._id, manifest=self._manifest)
        facts = {"digest": _digest(self._manifest), "host": self._host}
        self._set(_OFFER, id=self._id, group=self.generation.group, number=self.generation.number, **facts)

    def _hear(self) -> None:
        for rank in sorted(self._left):
            content = self._read(_ANSWER(rank))
            if content.get("to") == self._id:
                self._answers[rank] = _answer_of(content)
                self._set(_CONFIRMED(rank), to=content.get("id"), time=time.time())
                self._left.discard(rank)

    # --- the other ranks ----------------------------------------------------------------------------------------------

    def _answer(self) -> None:
        offer = self._read(_OFFER)
        if offer and offer.get("id") != self._answered:
            answer = self._compare(offer)
            if answer is None:
                return  # the manifest of another offer; the next step finds both of the same
            self._answered, self._host_of_0 = str(offer.get("id")), str(offer.get("host"))
            self._answers = {self._rank: answer}
            self._set(_ANSWER(self._rank), to=self._answered, id=self._id, **answer._asdict())
        confirmed = self._read(_CONFIRMED(self._rank))
        if confirmed.get("to") == self._id:
            ahead = time.time() - float(confirmed["time"])
            self.generation = Generation(str(offer["group"]), int(offer["number"]), round(ahead, 3))
            self._left.clear()

    def _compare(self, offer: Mapping[str, Any]) -> Optional[_Answer]:
        if offer.get("digest") == _digest(self._manifest):
            return _Answer(self._host, ())
        presented = self._read(_MANIFEST)
        if presented.get("id") != offer.get("id"):
            return None
        try:
            found = compare_manifests(self._manifest, presented["manifest"])
        except (AttributeError, IndexError, KeyError, TypeError) as error:  # another version of patchcore
            return _Answer(self._host, (), describe_error(error))
        return _Answer(self._host, tuple((d.subject, d.one, d.other) for d in found))

    # --- the store ----------------------------------------------------------------------------------------------------

    def _set(self, key: str, **content: Any) -> None:
        self._store.set(key, json.dumps(content))

    def _read(self, key: str) -> dict[str, Any]:
        """Return the content of a key, empty if there is none or if it is not patchcore's."""
        if not self._store.check([key]):
            return {}
        content = json.loads(self._store.get(key))
        return content if isinstance(content, dict) else {}


def _digest(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _answer_of(content: Mapping[str, Any]) -> _Answer:
    """Return the answer of a rank, which may be of another version of patchcore."""
    host, found = str(content.get("host", "")), content.get("differences")
    if not isinstance(found, list) or not all(isinstance(each, list) and len(each) == 3 for each in found):
        return _Answer(host, (), "its answer has no list of differences")
    return _Answer(host, tuple((str(a), str(b), str(c)) for a, b, c in found), str(content.get("fault", "")))


def _on(hosts: Sequence[str]) -> str:
    """Return the hosts of a message, with the word before them; empty if they are unknown."""
    named = [host for host in hosts if host]
    more = f" and {counted(len(named) - _MOST_HOSTS, 'other host')}" if len(named) > _MOST_HOSTS else ""
    return f" on {', '.join(named[:_MOST_HOSTS])}{more}" if named else ""


def _ranks(ranks: Iterable[int]) -> str:
    """Return ranks in words: ``rank 1``, ``ranks 1, 3``, ``ranks 8-15``."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    texts = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
    return f"rank {texts}" if texts.isdigit() else f"ranks {texts}"
