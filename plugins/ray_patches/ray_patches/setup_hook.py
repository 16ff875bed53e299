"""The setup hook of Ray's workers; it is sent by value, as the node of a worker may have no plugin and no patchcore.

Ray calls it when the worker is connected, before code of the program. Whatever it raises reaches the user: an actor
dies with the text, a task fails.
"""

from __future__ import annotations

from typing import Any, Callable, Union

__all__ = ["make"]


def make(own: Union[str, Callable[[], Any], None], strict: bool) -> Callable[[], None]:
    """Return the setup hook.

    Args:
        own: the program's, called after ours: a function, or its name with the module.
        strict: raise if the worker is not patched.
    """
    from ray import cloudpickle

    import ray_patches.setup_hook as this

    cloudpickle.register_pickle_by_value(this)

    def patchcore_setup() -> None:
        import importlib
        import os
        import sys

        problem = ""
        try:
            import patchcore_startup
            from patchcore.plugin import raise_failures, run_role

            if not patchcore_startup.activate():
                problem = "it does not have the environment of the run"
            else:
                raise_failures()
                if not run_role():
                    problem = "see the lines above"
        except ImportError as error:
            problem = f"{error}; install patchcore and the plugins of the program there"
        if problem:
            text = f"patchcore: the workers of {os.uname().nodename} are not patched: {sys.executable}: {problem}"
            if strict:
                raise RuntimeError(text)
            print(text, file=sys.stderr, flush=True)
        else:
            try:
                from ray_patches.workers import connected
            except ImportError:  # the plugin of the driver is missing here, which has been logged
                pass
            else:
                connected()
        if isinstance(own, str):
            module, _, name = own.rpartition(".")
            getattr(importlib.import_module(module), name)()
        elif own is not None:
            own()

    return patchcore_setup
