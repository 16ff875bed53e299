"""Models give the same as in eager: results, gradients, buffers, and parameters after updates."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
import torch

from npu_graph.conformance.models import MODELS
from npu_graph.conformance.plugin import SHARE, SUITE
from npu_graph.conformance.training import Pair, differences, share_of
from npu_graph.vendor import Declarations


def pytest_generate_tests(metafunc: Any) -> None:
    """One test for each model, with static and with dynamic sizes."""
    suite = metafunc.config.stash[SUITE]
    if "model" not in metafunc.fixturenames:
        return
    chosen = [(name, dynamic) for dynamic in suite.modes for name in suite.models]
    metafunc.parametrize(
        ("model", "dynamic"),
        chosen,
        ids=[f"{name}-{suite.model_dtype}-{'dynamic' if dynamic else 'static'}" for name, dynamic in chosen],
        scope="module",
    )


@pytest.fixture(scope="module")
def pair(model: str, dynamic: bool, graph_suite: Any) -> Any:
    """The model in training, compiled once for the tests of gradients and of updates."""
    dtype = getattr(torch, graph_suite.model_dtype)
    yield Pair(graph_suite.vendor, graph_suite.options, MODELS[model], dtype, dynamic)
    torch._dynamo.reset()


def check(differing: list[str], where: str) -> None:
    """Fail with the first difference."""
    if differing:
        more = f"\n  and {len(differing) - 10} more" if len(differing) > 10 else ""
        pytest.fail(f"{where}: {len(differing)} deviate from eager:\n  " + "\n  ".join(differing[:10]) + more, False)


def test_results_and_gradients_equal_eager(pair: Any, graph_suite: Any, dynamic: bool, record_property: Any) -> None:
    """Training: results, buffers, and gradients of inputs and parameters."""

    def run(call: Any, module: Any) -> dict[str, Any]:
        module.zero_grad()
        taken = x.clone().requires_grad_()
        result = call(taken)
        result.square().sum().backward()
        found = {"result": result.detach(), "gradient of the input": taken.grad, **dict(module.named_buffers())}
        found = {name: tensor.clone() for name, tensor in found.items()}
        return {**found, **{f"gradient of {name}": each.grad for name, each in module.named_parameters()}}

    for x in pair.inputs():
        got, wanted = pair.both(run)
        check(differences(got, wanted, graph_suite.model_tolerance), f"input {tuple(x.shape)}")
    assert [record.kind for record in pair.records] == ["forward", "backward"], "all sizes are compiled once"
    assert all(record.dynamic is dynamic for record in pair.records)
    converted, total, others = share_of(pair.records)
    record_property(SHARE, f"{converted} of {total} operators converted")
    assert converted, "nothing was converted: this test has tried eager only"
    assert converted >= graph_suite.share * total, f"less converted than graph_share asks for; eager: {others}"


def test_parameters_after_two_updates_equal_eager(pair: Any, graph_suite: Any) -> None:
    """Training: the parameters after steps of SGD with momentum."""
    modules = (pair.module, pair.twin)
    # small steps: the differences of the first ones must not take a ReLU over its kink in the second
    before = [{name: each.detach().clone() for name, each in module.named_parameters()} for module in modules]
    optimizers = {module: torch.optim.SGD(module.parameters(), lr=0.001, momentum=0.9) for module in modules}
    compiled = len(pair.records)

    def step(call: Any, module: Any) -> None:
        optimizers[module].zero_grad()
        call(x.clone().requires_grad_()).square().mean().backward()
        optimizers[module].step()

    for _ in range(2):
        x = next(pair.inputs())  # for the parameters there are now
        pair.both(step)
    got, wanted = (
        {f"change of {name}": each.detach() - old[name] for name, each in module.named_parameters()}
        for module, old in zip(modules, before)
    )
    # Each update rounds the parameter; a unit of its last place may be a thousandth of how far it was moved.
    rounding = {
        f"change of {name}": 2 * torch.finfo(each.dtype).eps * float(each.detach().abs().max())
        for name, each in pair.twin.named_parameters()
    }
    check(differences(got, wanted, graph_suite.update_tolerance, rounding), "after two updates")
    assert compiled in (0, len(pair.records)), "what was compiled for the gradients serves here"


def test_inference_equals_eager(model: str, dynamic: bool, graph_suite: Any) -> None:
    """Without gradients, in evaluation."""
    pair = Pair(
        graph_suite.vendor, graph_suite.options, MODELS[model], getattr(torch, graph_suite.model_dtype), dynamic
    )
    pair.module.eval()
    pair.twin.eval()
    for x in pair.inputs():
        with torch.no_grad():
            got, wanted = pair.both(lambda call, module: {"result": call(x)})  # noqa: B023
        check(differences(got, wanted, graph_suite.model_tolerance), f"input {tuple(x.shape)}")
    assert [record.kind for record in pair.records] == ["inference"], "all sizes are compiled once"
    torch._dynamo.reset()


@pytest.mark.parametrize("seed", range(3))
def test_without_some_conversions_the_model_equals_eager(graph_suite: Any, seed: int) -> None:
    """Half of the conversions, chosen at random, are taken away: their operators stay eager."""
    declared = graph_suite.vendor.declarations
    kept = set(random.Random(seed).sample(sorted(declared.conversions), len(declared.conversions) // 2))
    vendor = copy.copy(graph_suite.vendor)
    vendor.declarations = Declarations(
        {name: each for name, each in declared.conversions.items() if name in kept},
        declared.rewrites,
        declared.decompositions,
    )
    pair = Pair(vendor, graph_suite.options, MODELS["llama"], getattr(torch, graph_suite.model_dtype), False)
    for x in pair.inputs():
        with torch.no_grad():
            got, wanted = pair.both(lambda call, module: {"result": call(x)})  # noqa: B023
        check(differences(got, wanted, graph_suite.model_tolerance), f"with {sorted(kept)} only")
    torch._dynamo.reset()
