"""``torch.npu.random``: a generator for every device, shared with nobody."""

from __future__ import annotations

import pytest
import torch


def draw(device: str = "npu") -> list[float]:
    """Return the next three random numbers of a device."""
    return torch.rand(3, device=device).tolist()


class TestSeeds:
    def test_a_seed_determines_what_the_current_device_draws(self) -> None:
        torch.npu.manual_seed(5)
        first = draw()
        torch.npu.manual_seed(5)
        assert draw() == first
        assert draw() != first

    def test_it_leaves_other_devices_and_the_cpu_alone(self) -> None:
        states = torch.get_rng_state(), torch.npu.get_rng_state(1)
        torch.npu.manual_seed(5)
        draw()
        assert torch.equal(states[0], torch.get_rng_state())
        assert torch.equal(states[1], torch.npu.get_rng_state(1))

    def test_all_devices_are_seeded_at_once(self) -> None:
        torch.npu.manual_seed_all(7)
        assert draw("npu:0") == draw("npu:1")
        assert torch.npu.initial_seed() == 7

    def test_torch_seeds_the_devices_too(self) -> None:
        torch.manual_seed(3)
        first = draw()
        torch.manual_seed(3)
        assert draw() == first

    @pytest.mark.parametrize("seed", [torch.npu.seed, torch.npu.seed_all], ids=["one", "all"])
    def test_a_seed_that_nobody_knows_is_another_one(self, seed: object) -> None:
        torch.npu.manual_seed(5)
        seed()
        assert torch.npu.initial_seed() != 5

    def test_the_same_one_for_all_devices(self) -> None:
        torch.npu.seed_all()
        assert draw("npu:0") == draw("npu:1")


class TestStates:
    @pytest.mark.parametrize("device", ["npu", "npu:1", 1, torch.device("npu", 1)], ids=str)
    def test_a_state_repeats_what_follows_it(self, device: object) -> None:
        where = f"npu:{device}" if isinstance(device, int) else device
        state = torch.npu.get_rng_state(device)
        first = draw(where)
        torch.npu.set_rng_state(state, device)
        assert draw(where) == first

    def test_states_of_all_devices(self) -> None:
        states = torch.npu.get_rng_state_all()
        assert len(states) == torch.npu.device_count()
        first = draw("npu:0"), draw("npu:1")
        torch.npu.set_rng_state_all(states)
        assert (draw("npu:0"), draw("npu:1")) == first

    def test_fork_rng_gives_them_back(self) -> None:
        state = torch.npu.get_rng_state(1)
        with torch.random.fork_rng(devices=[1], device_type="npu"):
            draw("npu:1")
            assert not torch.equal(torch.npu.get_rng_state(1), state)
        assert torch.equal(torch.npu.get_rng_state(1), state)

    def test_default_generators_are_those_of_the_devices(self) -> None:
        assert [generator.device.index for generator in torch.npu.default_generators] == list(
            range(torch.npu.device_count())
        )
        torch.npu.default_generators[1].manual_seed(9)
        with torch.npu.device(1):
            assert torch.npu.initial_seed() == 9
