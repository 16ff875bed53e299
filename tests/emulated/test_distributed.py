"""Distributed training over emulated NPUs, a device per process, equals training on the CPU in one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from ranks import SAMPLES, network, normalising, run_ranks, train

SIZE = 2
ROUND_OFF = {"rtol": 1e-5, "atol": 1e-6}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of two ranks found."""
    return run_ranks(SIZE, tmp_path_factory.mktemp("ranks") / "rendezvous")


class TestDataParallel:
    def test_ranks_train_as_one_process_on_all_samples(self, found: list[dict[str, Any]]) -> None:
        model = network()
        expected = train(model, SAMPLES)
        results = [one["data_parallel"] for one in found]
        mean = [sum(losses) / SIZE for losses in zip(*(result["losses"] for result in results))]
        assert mean == pytest.approx(expected, rel=1e-5)
        for rank, result in enumerate(results):
            assert result["device"] == f"npu:{rank}"
            for weights, parameter in zip(result["weights"], model.parameters()):
                torch.testing.assert_close(torch.tensor(weights), parameter.detach().flatten(), **ROUND_OFF)

    def test_without_synchronisation_every_rank_has_its_own_gradient(self, found: list[dict[str, Any]]) -> None:
        first, second = (one["data_parallel"]["own gradient"] for one in found)
        assert first != pytest.approx(second)


class TestSyncBatchNorm:
    @pytest.fixture
    def expected(self) -> dict[str, torch.Tensor]:
        """What a plain batch norm does with all samples on the CPU."""
        model = normalising()
        samples = SAMPLES.clone().requires_grad_()
        result = model(samples)
        (result * result.detach().exp()).mean().backward()
        norm = model[0]
        return {
            "result": result.detach(),
            "running": torch.stack([norm.running_mean, norm.running_var]),
            "input gradient": samples.grad * SIZE,  # each rank's loss is a mean over its share alone
            "gradients": torch.stack([norm.weight.grad, norm.bias.grad]),
        }

    def test_ranks_normalise_as_one_process(
        self, found: list[dict[str, Any]], expected: dict[str, torch.Tensor]
    ) -> None:
        results = [one["batch_norm"] for one in found]
        for name in ("result", "input gradient"):
            joined = torch.cat([torch.tensor(result[name]) for result in results])
            torch.testing.assert_close(joined, expected[name], **ROUND_OFF)

    def test_statistics_and_gradients_are_everybodys(
        self, found: list[dict[str, Any]], expected: dict[str, torch.Tensor]
    ) -> None:
        for one in found:
            assert one["batch_norm"]["class"] == "SyncBatchNorm"
            for name in ("running", "gradients"):
                torch.testing.assert_close(torch.tensor(one["batch_norm"][name]), expected[name], **ROUND_OFF)
