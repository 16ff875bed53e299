"""Random numbers: generators per device, reproducible and apart from the CPU's."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch
import torch.nn.functional as F
from limits import is_limited
from torch import Tensor

DRAWS: dict[str, Callable[[], Tensor]] = {
    "rand": lambda: torch.rand(50, device="npu"),
    "randn": lambda: torch.randn(50, device="npu"),
    "randint": lambda: torch.randint(0, 1000, (50,), device="npu"),
    "randperm": lambda: torch.randperm(50, device="npu"),
    "rand_like": lambda: torch.rand_like(torch.zeros(50, device="npu")),
    "normal_": lambda: torch.zeros(50, device="npu").normal_(),
    "uniform_": lambda: torch.zeros(50, device="npu").uniform_(-1, 1),
    "bernoulli": lambda: torch.full((50,), 0.5, device="npu").bernoulli(),
    "exponential_": lambda: torch.zeros(50, device="npu").exponential_(),
    "multinomial": lambda: torch.ones(100, device="npu").multinomial(50),
    "normal": lambda: torch.normal(torch.zeros(50, device="npu"), 1.0),
    "dropout": lambda: F.dropout(torch.ones(50, device="npu")),
    "rrelu": lambda: F.rrelu(-torch.ones(50, device="npu"), training=True),
}


class TestGenerators:
    def test_a_generator_belongs_to_a_device(self) -> None:
        assert torch.Generator("npu").device == torch.device("npu", 0)
        assert torch.Generator(device="npu:1").device == torch.device("npu", 1)
        assert isinstance(torch.Generator("npu"), torch.Generator)
        assert torch.Generator().device == torch.device("cpu")

    def test_the_same_seed_gives_the_same_numbers(self) -> None:
        draws = [torch.randn(50, device="npu", generator=torch.Generator("npu").manual_seed(3)) for _ in range(2)]
        assert torch.equal(*draws)
        other = torch.randn(50, device="npu", generator=torch.Generator("npu").manual_seed(4))
        assert not torch.equal(draws[0], other)

    def test_it_goes_on_where_it_stopped(self) -> None:
        generator = torch.Generator("npu").manual_seed(3)
        state = generator.get_state()
        first = torch.rand(5, device="npu", generator=generator)
        second = torch.rand(5, device="npu", generator=generator)
        assert not torch.equal(first, second)
        generator.set_state(state)
        assert torch.equal(torch.rand(5, device="npu", generator=generator), first)
        assert state.device.type == "cpu"

    def test_seeds(self) -> None:
        generator = torch.Generator("npu").manual_seed(11)
        assert generator.initial_seed() == 11
        assert isinstance(generator.seed(), int)
        assert generator.initial_seed() != 11

    @pytest.mark.parametrize(
        "draw",
        [
            lambda g: torch.randint(0, 9, (20,), device="npu", generator=g),
            lambda g: torch.randperm(20, device="npu", generator=g),
            lambda g: torch.zeros(20, device="npu").normal_(generator=g),
            lambda g: torch.zeros(20, device="npu").bernoulli_(0.5, generator=g),
            lambda g: torch.ones(40, device="npu").multinomial(20, generator=g),
        ],
        ids=["randint", "randperm", "normal_", "bernoulli_", "multinomial"],
    )
    def test_operators_take_one_and_leave_the_default_alone(self, draw: Callable[[torch.Generator], Tensor]) -> None:
        before = torch.npu.get_rng_state()
        assert torch.equal(*(draw(torch.Generator("npu").manual_seed(5)) for _ in range(2)))
        assert torch.equal(torch.npu.get_rng_state(), before)


class TestMismatch:
    def test_a_generator_of_the_cpu_on_the_npu(self) -> None:
        with pytest.raises(RuntimeError, match="Expected a 'npu' device type for generator but found 'cpu'"):
            torch.randn(3, device="npu", generator=torch.Generator())
        with pytest.raises(RuntimeError, match="Expected a 'npu' device type for generator but found 'cpu'"):
            torch.zeros(3, device="npu").normal_(generator=torch.Generator())

    def test_a_generator_of_the_npu_on_the_cpu(self) -> None:
        generator = torch.Generator("npu").manual_seed(7)
        if not is_limited("reject a generator of another device"):
            with pytest.raises(RuntimeError, match=r"Expected (a 'cpu' device type for generator|all tensors)"):
                torch.randn(3, generator=generator)
            return
        # What a generator draws there depends on its seed, as anywhere.
        assert torch.equal(
            torch.randn(3, generator=generator), torch.randn(3, generator=torch.Generator().manual_seed(7))
        )


class TestDefaultGenerator:
    @pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
    def test_seeding_repeats_every_draw_and_the_cpu_draws_nothing(self, draw: Callable[[], Tensor]) -> None:
        torch.manual_seed(1)
        before = torch.get_rng_state()
        first = draw()
        second = draw()
        torch.npu.manual_seed(1)
        again = draw()
        assert torch.equal(first, again)
        assert not torch.equal(first, second)
        assert torch.equal(torch.get_rng_state(), before)

    @pytest.mark.parametrize("device", ["npu", "npu:1", 1, torch.device("npu", 1)], ids=str)
    def test_states_are_kept_and_put_back(self, device: Any) -> None:
        state = torch.npu.get_rng_state(device)
        first = torch.rand(5, device=device)
        torch.npu.set_rng_state(state, device)
        assert torch.equal(torch.rand(5, device=device), first)

    @pytest.mark.parametrize("seed", [torch.npu.seed, torch.npu.seed_all], ids=["one", "all"])
    def test_a_seed_that_nobody_knows_is_another_one(self, seed: Callable[[], None]) -> None:
        torch.npu.manual_seed(5)
        seed()
        assert torch.npu.initial_seed() != 5

    def test_devices_have_their_own(self) -> None:
        torch.npu.manual_seed_all(5)
        first = torch.rand(5, device="npu:0")
        torch.rand(50, device="npu:0")
        assert torch.equal(torch.rand(5, device="npu:1").cpu(), first.cpu())
        states = torch.npu.get_rng_state_all()
        assert len(states) == torch.npu.device_count()
        torch.npu.set_rng_state_all(states)
        assert torch.npu.initial_seed() == 5

    def test_fork_rng_puts_back_both(self) -> None:
        before = torch.npu.get_rng_state(), torch.get_rng_state()
        with torch.random.fork_rng(devices=[0], device_type="npu"):
            torch.rand(3, device="npu")
            torch.rand(3)
        assert torch.equal(torch.npu.get_rng_state(), before[0])
        assert torch.equal(torch.get_rng_state(), before[1])


class TestIndependence:
    def test_drawing_on_the_cpu_leaves_the_npu_alone(self) -> None:
        before = torch.npu.get_rng_state()
        torch.rand(5)
        torch.randperm(5)
        assert torch.equal(torch.npu.get_rng_state(), before)

    def test_seeding_the_npu_leaves_the_cpu_alone(self) -> None:
        before = torch.get_rng_state()
        torch.npu.manual_seed(123)
        torch.npu.manual_seed_all(123)
        assert torch.equal(torch.get_rng_state(), before)
