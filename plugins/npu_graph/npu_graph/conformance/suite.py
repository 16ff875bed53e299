"""The tests of a run, selected by its options and its ini file."""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Optional

from npu_graph.backend import Backend
from npu_graph.conformance.batches import Batch, Finding
from npu_graph.conformance.cases import CASES, EVERY, FLOATS, Case
from npu_graph.conformance.comparison import MODEL_TOLERANCES, TOLERANCES, Tolerances
from npu_graph.conformance.expectations import Expected, parse_expected
from npu_graph.conformance.models import MODELS
from npu_graph.conformance.naming import find_backend
from npu_graph.options import CACHE_DIR
from npu_graph.registry import vendors
from npu_graph.vendor import Vendor
from patchcore import SettingsError
from patchcore.plugin import did_you_mean

__all__ = ["Suite", "Trial"]


class Trial(NamedTuple):
    """The content of one test: the cases of an operator in one dtype, with static or with dynamic sizes."""

    operator: str
    dtype: str
    dynamic: bool

    def __str__(self) -> str:
        return f"{self.operator}-{self.dtype}-{'dynamic' if self.dynamic else 'static'}"


class Suite:
    """Vendor, cases, dtypes, tolerances and expectations of a run.

    Args:
        backend: whose vendor is tried, with the options it brings.
        cases: all there are.
        modes: of sizes, ``False`` for static.
        settings: of the ini file, by name: lists of lines, and ``graph_share``.

    Raises:
        SettingsError: an operator, model, dtype or number has no meaning; with the nearest that has.
    """

    def __init__(self, backend: Backend, vendor: Vendor, cases: Sequence[Case], modes: Sequence[bool], settings: Any):
        self.vendor = vendor
        self.modes = tuple(modes)
        self.cases = tuple(cases)
        self._options = dict(backend.options)
        operators = dict.fromkeys(case.operator for case in cases)
        names = _words(settings["graph_operators"])
        self.required = frozenset(name for given in names for name in _operators(given, operators))
        self._name = backend.vendor
        self.dtypes = _chosen("graph_dtypes", _words(settings["graph_dtypes"]), EVERY) or tuple(
            dtype for dtype in EVERY if dtype in vendor.dtypes
        )
        self.models = _chosen("graph_models", _words(settings["graph_models"]), MODELS) or tuple(MODELS)
        self.tolerances: Tolerances = {**TOLERANCES, **_tolerances(settings["graph_tolerances"])}
        self.expected = parse_expected(settings["graph_expected_failures"], self.cases)
        self.model_dtype = next((dtype for dtype in FLOATS if dtype in vendor.dtypes), FLOATS[0])
        self.model_tolerance = _number("graph_model_tolerance", settings) or MODEL_TOLERANCES[self.model_dtype]
        self.update_tolerance = 10 * self.model_tolerance
        self.share = _number("graph_share", settings) or 0.0
        self._selected: Optional[frozenset[Trial]] = None
        self._results: dict[tuple[str, bool], dict[str, list[Finding]]] = {}

    @classmethod
    def of(cls, config: Any) -> Suite:
        """Return the suite for the options of a run of pytest.

        Raises:
            SettingsError: as the constructor, or a case that others add is none.
        """
        backend = find_backend(config.getoption("--backend"))
        vendor = vendors().get(backend.vendor)
        modes = {"true": (True,), "false": (False,), "all": (False, True)}[config.getoption("--dynamic")]
        added = [case for given in config.hook.pytest_graph_operator_cases(vendor=vendor) for case in given]
        names = ("operators", "models", "dtypes", "tolerances", "expected_failures", "share", "model_tolerance")
        settings = {f"graph_{name}": config.getini(f"graph_{name}") for name in names}
        return cls(backend, vendor, _checked([*CASES, *added]), modes, settings)

    def use_cache(self, folder: Path) -> None:
        """Keep kernels in ``folder``, unless the environment names another one."""
        if CACHE_DIR not in os.environ:
            self._options.setdefault("cache_dir", str(folder))

    def select(self, trials: Iterable[Trial]) -> None:
        """Compile no other cases than those of ``trials``."""
        self._selected = frozenset(trials)

    @property
    def options(self) -> dict[str, Any]:
        """Of ``torch.compile``."""
        return dict(self._options)

    @functools.cached_property
    def trials(self) -> list[Trial]:
        """The tests, dtype by dtype."""
        return [
            Trial(operator, dtype, dynamic)
            for dynamic in self.modes
            for dtype in self.dtypes
            for operator in dict.fromkeys(case.operator for case in self.cases if dtype in case.dtypes)
        ]

    @functools.cached_property
    def untried(self) -> list[str]:
        """Operators that the vendor converts and that no case calls."""
        tried = {case.operator for case in self.cases}
        tried |= {name.rpartition(".")[0] for name in tried}
        return sorted(set(self.vendor.declarations.conversions) - tried)

    def findings(self, trial: Trial) -> list[Finding]:
        """Return the outcomes of the cases of a trial; all cases of its dtype are compiled with the first."""
        key = trial.dtype, trial.dynamic
        if key not in self._results:
            selected = self._selected if self._selected is not None else self.trials
            wanted = {each.operator for each in selected if (each.dtype, each.dynamic) == key}
            cases = [case for case in self.cases if case.operator in wanted and trial.dtype in case.dtypes]
            batch = Batch(self.vendor, self._options, trial.dtype, trial.dynamic, self.tolerances)
            results: dict[str, list[Finding]] = {}
            for finding in batch.run(cases):
                results.setdefault(finding.case.operator, []).append(finding)
            self._results[key] = results
        return self._results[key][trial.operator]

    def command(self, chosen: object) -> str:
        """Return the command line that tries one thing again."""
        dynamic = str(getattr(chosen, "dynamic", "all")).lower()
        suite = "pytest -p npu_graph.conformance --pyargs npu_graph.conformance"
        return f"{suite} --backend {self._name} --dynamic {dynamic} -k {chosen}"

    def expected_of(self, trial: Trial) -> list[Expected]:
        """Return the failures that the ini file expects of a trial."""
        return [each for each in self.expected if each.concerns(trial.operator, trial.dtype)]


def _words(lines: Iterable[str]) -> list[str]:
    return [word for line in lines for word in line.replace(",", " ").split()]


def _operators(given: str, known: Collection[str]) -> list[str]:
    found = [name for name in known if given in (name, name.rpartition(".")[0])]
    if not found:
        raise SettingsError(
            f"graph_operators: there is no case of an operator {given!r}{did_you_mean(given, known)}; cases are added "
            f"by the hook pytest_graph_operator_cases"
        )
    return found


def _chosen(setting: str, given: Sequence[str], known: Iterable[str]) -> tuple[str, ...]:
    for name in given:
        if name not in known:
            raise SettingsError(
                f"{setting}: there is no {name!r}{did_you_mean(name, known)}; known: {', '.join(known)}"
            )
    return tuple(given)


def _tolerances(lines: Iterable[str]) -> dict[str, tuple[float, float]]:
    found = {}
    for line in filter(str.strip, lines):
        try:
            dtype, relative, of_largest = line.split()
            found[dtype] = (float(relative), float(of_largest))
        except ValueError:
            raise SettingsError(
                f"graph_tolerances: expected a dtype and two numbers, as: float32 1e-4 1e-5, got {line!r}"
            ) from None
        _chosen("graph_tolerances", [dtype], EVERY)
    return found


def _number(setting: str, settings: Any) -> Optional[float]:
    given = settings[setting]
    if not given:
        return None
    try:
        number = float(given)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise SettingsError(f"{setting}: expected a number from 0 to 1, got {given!r}")
    return number


def _checked(cases: Iterable[Any]) -> list[Case]:
    names = set()
    checked = []
    for case in cases:
        if not isinstance(case, Case):
            raise SettingsError(f"pytest_graph_operator_cases: expected npu_graph.conformance.cases.Case, got {case!r}")
        _chosen(f"the case {case.name}", case.dtypes, EVERY)
        if case.name in names:
            raise SettingsError(f"there are two cases {case.name}; give one another label")
        names.add(case.name)
        checked.append(case)
    return checked
