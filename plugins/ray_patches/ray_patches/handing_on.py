"""Hands the run on to the workers of a Ray cluster, in the ``runtime_env`` of ``ray.init``.

A cluster that ``ray.init`` starts inherits the environment of the program. A cluster that was there has the environment
of whoever started it. ``env_vars`` of a runtime environment are set before the interpreter of a worker starts, so that
it knows the run as any child does. Values that the program itself has set win.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any, Callable, Optional

__all__ = ["init", "merged"]

_SESSION = "PATCHCORE_SESSION"
_CLIENT_SERVER = "ray.util.client.server"
_HOOK = "worker_process_setup_hook"


def init(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call ``ray.init`` with the run in its runtime environment; outside a run as it is."""
    if not os.environ.get(_SESSION) or _serves_client():
        return original(*args, **kwargs)
    address = args[0] if args else kwargs.get("address")
    is_client = str(address or os.environ.get("RAY_ADDRESS") or "").startswith("ray://")
    config = kwargs.get("job_config")
    if kwargs.get("runtime_env") is None and config is not None and getattr(config, "runtime_env", None):
        config.set_runtime_env(merged(config.runtime_env, with_hook=not is_client))  # else it would be lost
    else:
        kwargs["runtime_env"] = merged(kwargs.get("runtime_env"), with_hook=not is_client)
    return original(*args, **kwargs)


def merged(own: Optional[Mapping[str, Any]], *, with_hook: bool) -> dict[str, Any]:
    """Return a runtime environment with the run and our setup hook added to it.

    Args:
        own: of the program.
        with_hook: the setup hook can be a function; one that goes through Ray Client cannot (Ray 2.60).
    """
    from ray_patches import setup_hook

    found = dict(own or {})
    variables = dict(found.get("env_vars") or {})
    job = _job()
    if _SESSION not in {*variables, *(job.get("env_vars") or {})}:  # Ray refuses a variable that the job sets, too
        variables[_SESSION] = os.environ[_SESSION]
    if variables:
        found["env_vars"] = variables
    if with_hook and _HOOK not in job and variables.get(_SESSION, "-"):
        found[_HOOK] = setup_hook.make(found.get(_HOOK), _is_strict(os.environ[_SESSION]))
    return found


def _serves_client() -> bool:
    """Return whether this process is the server of a Ray Client: it hands on what its program has sent (Ray 2.60)."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return str(getattr(spec, "name", "")).startswith(_CLIENT_SERVER)


def _job() -> Mapping[str, Any]:
    """Return the runtime environment with which this program was submitted (``ray job submit``)."""
    text = os.environ.get("RAY_JOB_CONFIG_JSON_ENV_VAR")
    try:
        job = json.loads(text or "{}").get("runtime_env") or {}
    except (AttributeError, ValueError):  # not Ray's
        return {}
    return job if isinstance(job, Mapping) else {}


def _is_strict(session: str) -> bool:
    return session.partition(":")[0].endswith("s")
