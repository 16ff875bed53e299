"""What counts as a step of training."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

import patchcore as pc
from patchcore_torch import TrainingLoop
from patchcore_torch.training import steps
from patchcore_torch.training.loops import user_loop
from patchcore_torch.training.optimizers import PATCHES

pytestmark = pytest.mark.usefixtures("fresh_steps")

LIBRARY = {
    "gym": "",
    "gym.loops": """
        class Loop:
            done = 0
            def run_iter(self, data):
                self.done += 1
                return data
            def call_hook(self, name):
                return name
            @staticmethod
            def plain(data):
                return data
        class Outer(Loop):
            def run_iter(self, data):
                return super().run_iter(data)
        """,
}

#: An optimizer of torch before 2.0, which wraps ``step`` of a class when the first object is made.
OLD_TORCH = """
    import functools

    class Optimizer:
        def __init__(self):
            self._hook_for_profile()

        def _hook_for_profile(self):
            if not getattr(type(self).step, "hooked", False):
                step = type(self).step

                @functools.wraps(step)
                def wrapper(*args, **kwargs):
                    return step(*args, **kwargs)

                type(self).step = wrapper
                type(self).step.hooked = True

    class SGD(Optimizer):
        fails = False

        def step(self, closure=None):
            if self.fails:
                raise RuntimeError("out of memory")
            return "SGD"

    class Clipped(SGD):
        def step(self, closure=None):
            return "clipped " + super().step(closure)
    """


@pytest.fixture
def gym(make_package: Any) -> Any:
    make_package(LIBRARY)
    import gym.loops

    return gym.loops


def counted(*loops: TrainingLoop) -> pc.Patcher:
    return pc.Patcher([loop.patch() for loop in loops], strict=True)


class Optimizer:
    """Anything that steps."""


class TestNamedLoops:
    def test_each_call_is_a_step_and_returns_what_it_did(self, gym: Any, fresh_steps: steps.Steps) -> None:
        with counted(TrainingLoop("gym.loops:Loop.run_iter"), TrainingLoop("gym.loops:Loop.plain")):
            assert gym.Loop().run_iter("data") == "data"
            assert gym.Loop.plain("data") == "data"
        assert fresh_steps.finished == 2
        gym.Loop().run_iter("data")
        assert fresh_steps.finished == 2

    def test_only_the_outermost_of_nested_steps_counts(self, gym: Any, fresh_steps: steps.Steps) -> None:
        with counted(TrainingLoop("gym.loops:Loop.run_iter"), TrainingLoop("gym.loops:Outer.run_iter")):
            assert gym.Outer().run_iter("data") == "data"
        assert fresh_steps.finished == 1

    def test_a_predicate_tells_which_calls_are_steps(self, gym: Any, fresh_steps: steps.Steps) -> None:
        loop = TrainingLoop("gym.loops:Loop.call_hook", when_call=lambda self, name: name == "after_train_iter")
        with counted(loop):
            names = [gym.Loop().call_hook(name) for name in ("before_train_iter", "after_train_iter", "after_val_iter")]
        assert names == ["before_train_iter", "after_train_iter", "after_val_iter"]
        assert fresh_steps.finished == 1

    def test_a_call_that_raises_is_no_step(self, gym: Any, fresh_steps: steps.Steps) -> None:
        with counted(TrainingLoop("gym.loops:Loop.run_iter")):
            with pytest.raises(TypeError):
                gym.Loop().run_iter()
            gym.Loop().run_iter("data")
        assert fresh_steps.finished == 1

    def test_optimizers_do_not_count_from_the_first_step_of_a_named_loop_on(
        self, gym: Any, fresh_steps: steps.Steps, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        optimizer = Optimizer()
        fresh_steps.optimizer_stepped(optimizer)
        assert fresh_steps.finished == 1
        monkeypatch.setattr(gym.Loop, "run_iter", lambda self, data: fresh_steps.optimizer_stepped(optimizer))
        with counted(TrainingLoop("gym.loops:Loop.run_iter")):
            gym.Loop().run_iter("data")
            gym.Loop().run_iter("data")
            fresh_steps.optimizer_stepped(optimizer)
        assert fresh_steps.finished == 3

    def test_names_are_those_of_the_targets(self) -> None:
        assert TrainingLoop("gym.loops:Loop.run_iter").name == "patchcore.step.gym.loops.Loop.run_iter"
        assert TrainingLoop('gym.loops:TABLE["a b"]').name == "patchcore.step.gym.loops.TABLE.a_b"

    def test_a_loop_of_the_programs_own_file_is_refused(self) -> None:
        with pytest.raises(pc.DeclarationError, match=r"the program's own file cannot be patched.*move the function"):
            user_loop("__main__:train_step")


class TestOptimizers:
    def count(self, steps: steps.Steps, *optimizers: Any) -> int:
        before = steps.finished
        for optimizer in optimizers:
            steps.optimizer_stepped(optimizer)
        return steps.finished - before

    def test_each_step_of_one_counts(self, fresh_steps: steps.Steps) -> None:
        assert self.count(fresh_steps, *[Optimizer()] * 5) == 5

    def test_two_of_a_gan_count_once_for_each_iteration(self, fresh_steps: steps.Steps) -> None:
        generator, discriminator = Optimizer(), Optimizer()
        assert self.count(fresh_steps, *[generator, discriminator] * 5) == 5

    def test_the_one_that_steps_most_counts(self, fresh_steps: steps.Steps) -> None:
        generator, critic = Optimizer(), Optimizer()
        assert self.count(fresh_steps, *[critic, critic, critic, generator] * 5) == 15

    def test_one_after_the_other_all_count(self, fresh_steps: steps.Steps) -> None:
        first = Optimizer()
        assert self.count(fresh_steps, *[first] * 5) == 5
        del first
        gc.collect()
        assert self.count(fresh_steps, *[Optimizer()] * 5) == 5


class TestTorchBefore2:
    @pytest.fixture
    def optim(self, make_package: Any) -> Iterator[Any]:
        make_package({"torch": "", "torch.optim": "", "torch.optim.optimizer": OLD_TORCH})
        import torch.optim.optimizer as optim

        _, patch = PATCHES
        with pc.Patcher([patch.evolve(requires=())], strict=True):
            yield optim

    def test_steps_count_once_whatever_the_class_makes_of_them(self, optim: Any, fresh_steps: steps.Steps) -> None:
        sgd = optim.SGD()
        clipped = optim.Clipped()
        assert clipped.step() == "clipped SGD"
        assert fresh_steps.finished == 1
        assert clipped.step() == "clipped SGD"
        assert fresh_steps.finished == 2
        assert [sgd.step(), sgd.step()] == ["SGD", "SGD"]
        assert fresh_steps.finished == 3  # the first one was of the same round as the last of the other
        assert optim.SGD.step.hooked

    def test_a_step_that_fails_does_not_count(self, optim: Any, fresh_steps: steps.Steps) -> None:
        sgd = optim.SGD()
        sgd.fails = True
        with pytest.raises(RuntimeError, match="out of memory"):
            sgd.step()
        sgd.fails = False
        sgd.step()
        assert fresh_steps.finished == 1
