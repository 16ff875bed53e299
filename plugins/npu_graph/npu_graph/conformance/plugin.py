"""The plugin of ``pytest -p npu_graph.conformance``: options, settings in ini files, words for results, a summary."""

from __future__ import annotations

import importlib.util
import logging
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import pytest

import patchcore as pc
from npu_graph.conformance import hookspecs
from npu_graph.conformance.naming import find_backend
from npu_graph.errors import UnknownVendor
from patchcore import PatchcoreError
from patchcore.plugin import counted

if TYPE_CHECKING:
    from npu_graph.conformance.suite import Suite

__all__ = ["CONVERTED", "EAGER", "FAILED", "OUTCOME", "PARTLY", "SHARE", "SUITE", "TRIAL"]

HERE = Path(__file__).resolve().parent
SUITE: pytest.StashKey[Suite] = pytest.StashKey()
#: Properties of reports, which reach junit files and, with xdist, the process that has the terminal.
TRIAL, OUTCOME, SHARE = "graph_trial", "graph_outcome", "graph_share"
#: How an operator in a dtype may end; whatever did not fail equals eager.
CONVERTED, PARTLY, EAGER, XFAILED, FAILED, SKIPPED = OUTCOMES = (
    "converted and equal",
    "converted in part",
    "eager",
    "failed as expected",
    "failed",
    "not in eager",
)

_LISTS = {
    "graph_operators": "operators that must be converted, in all cases: aten.add.Tensor, or aten.add for all overloads",
    "graph_models": "models that are tried; all without it",
    "graph_dtypes": "dtypes that are tried; all that the vendor takes without it",
    "graph_tolerances": "lines of: dtype, relative to each element, relative to the largest",
    "graph_expected_failures": "lines of OPERATOR, OPERATOR:DTYPE or OPERATOR[CASE]:DTYPE, then the reason",
}


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Let others add cases."""
    pluginmanager.add_hookspecs(hookspecs)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and the settings."""
    group = parser.getgroup("graph", "conformance of a graph backend")
    group.addoption(
        "--backend", metavar="NAME", help="whose backend is tried: a vendor's name (c) or the backend's (patchcore_c)"
    )
    group.addoption(
        "--dynamic",
        choices=["true", "false", "all"],
        default="all",
        help="with sizes that are known only when a graph runs, without, or both (default)",
    )
    for name, help in _LISTS.items():
        parser.addini(name, help, type="linelist")
    parser.addini("graph_share", "share of a model's operators that must be converted, 0 to 1", default="")
    parser.addini("graph_model_tolerance", "what models may be off by, of the largest magnitude", default="")


def pytest_sessionstart(session: pytest.Session) -> None:
    """See to it that there is a backend to try, without torch.

    Raises:
        pytest.UsageError: none is named, there is none of that name, or torch is missing.
    """
    try:
        find_backend(session.config.getoption("--backend"))
    except UnknownVendor as error:
        raise pytest.UsageError(str(error)) from error
    if importlib.util.find_spec("torch") is None:
        raise pytest.UsageError(
            "conformance tests of a graph backend need torch, which is not installed: "
            f"{pc.install_command('npu-graph[torch]')}"
        )


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Make the suite: from here on there is torch.

    Raises:
        pytest.UsageError: something in the settings has no meaning, or the vendor cannot be prepared.
    """
    from npu_graph.conformance.suite import Suite

    try:
        session.config.stash[SUITE] = Suite.of(session.config)
    except PatchcoreError as error:
        raise pytest.UsageError(str(error)) from error


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path: Path, parent: Any) -> Optional[pytest.Module]:
    """Name the tests by their package, not by the way from here to where it is installed."""
    if module_path.parent != HERE:
        return None
    return pytest.Module.from_parent(parent, path=module_path, nodeid=f"npu_graph/conformance/{module_path.name}")


@pytest.fixture(scope="session")
def graph_suite(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the :class:`~npu_graph.conformance.suite.Suite` of this run, with an empty cache of kernels."""
    suite = request.config.stash[SUITE]
    suite.use_cache(tmp_path_factory.mktemp("kernels"))
    callspecs = [getattr(item, "callspec", None) for item in request.session.items]
    if "TORCH_TRACE" not in os.environ:  # a trace of all that dynamo does, which pytest would print with each failure
        logging.getLogger("torch.__trace").addFilter(lambda record: False)
    suite.select(callspec.params["trial"] for callspec in callspecs if callspec and "trial" in callspec.params)
    return suite


def pytest_report_header(config: pytest.Config) -> Optional[str]:
    """Return the header of the test run: its backend."""
    name = config.getoption("--backend")
    return f"graph backend: {name}, dynamic: {config.getoption('--dynamic')}" if name else None


def pytest_report_teststatus(report: pytest.TestReport) -> Any:
    """Report cases that passed because they stayed eager, wholly or in part, in words of their own."""
    outcome = dict(report.user_properties).get(OUTCOME)
    if report.when == "call" and report.passed and outcome in (PARTLY, EAGER):
        return outcome, "e" if outcome == EAGER else "p", str(outcome).upper()
    return None


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print how many operators were converted and equal, dtype by dtype, and how much of the models."""
    tally: dict[str, Counter[str]] = {}
    shares: dict[str, str] = {}
    for status, reports in terminalreporter.stats.items():
        for report in reports:
            if getattr(report, "when", None) != "call":
                continue
            properties = dict(report.user_properties)
            if TRIAL in properties:
                ended = XFAILED if status == "xfailed" else properties.get(OUTCOME, SKIPPED)
                tally.setdefault(properties[TRIAL], Counter())[ended] += 1
            if SHARE in properties:
                shares[report.nodeid.partition("[")[2].rstrip("]")] = properties[SHARE]
    if not tally and not shares:
        return
    terminalreporter.section(f"conformance of {config.getoption('--backend')}")
    for trial, counts in tally.items():
        told = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome])
        terminalreporter.line(f"{trial}: {counted(sum(counts.values()), 'operator')}: {told}")
    for model, share in sorted(shares.items()):
        terminalreporter.line(f"{model}: {share}")
    untried = config.stash[SUITE].untried
    if untried:
        terminalreporter.line(f"converted, but without a case: {', '.join(untried)}")
