"""The entry point: ``patchcore run --compat mindspeed`` and ``patchcore plan --compat mindspeed``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from patchcore import Patch, SettingsError, hookimpl
from patchcore.plugin import Compat

if TYPE_CHECKING:
    import argparse

    from patchcore import Patcher, Settings

__all__ = [
    "advise",
    "configure_run",
    "plan_options",
    "refuse_run",
    "register_compat",
    "register_patches",
    "register_run_options",
]

_PLANNING = "mindspeed_compat.planning"
#: The options of the plan in this process, by name.
plan_options: dict[str, Optional[str]] = {}


@hookimpl
def register_patches(settings: Settings) -> list[Patch]:
    """Return a patch without changes for each feature that the user disables: only MindSpeed knows its features."""
    if "mindspeed" not in (settings.get("compat") or ()):
        return []
    names = [choice.name for choice in settings.choices if not choice.enable]
    features = dict.fromkeys(name for name in names if name.startswith("mindspeed."))
    return [Patch(name, summary="a feature of MindSpeed, which decides about it in the program") for name in features]


@hookimpl(optionalhook=True)
def register_compat() -> list[Compat]:
    """Return the interface of MindSpeed's features."""
    return [Compat("mindspeed", modules=("mindspeed",), take_part=_take_part, plan=_PLANNING)]


@hookimpl(optionalhook=True)
def register_run_options(parser: argparse.ArgumentParser, command: str) -> None:
    """Add the options of ``patchcore plan --compat mindspeed``, which has those of ``patchcore run``."""
    if command != "run":
        return
    group = parser.add_argument_group("patchcore plan --compat mindspeed")
    group.add_argument(
        "--against",
        metavar="MEGATRON",
        help="compare the targets with another Megatron-LM: a folder, or megatron-core==0.13.1",
    )
    group.add_argument(
        "--explain", metavar="NAME", help="show a feature, mindspeed.FEATURE, or all that is known of a target"
    )


@hookimpl(optionalhook=True)
def configure_run(options: argparse.Namespace) -> None:
    """Keep the options for the plan; ``patchcore verify`` has none of them."""
    plan_options.update({name: getattr(options, name, None) for name in ("against", "explain")})


@hookimpl(optionalhook=True)
def refuse_run(options: argparse.Namespace) -> Optional[SettingsError]:
    """Refuse the options of the plan where a program is run."""
    given = [f"--{name}" for name in ("against", "explain") if getattr(options, name, None)]
    if not given or (options.as_module and options.program[:1] == [_PLANNING]):
        return None
    return SettingsError(f"{given[0]} is an option of patchcore plan --compat mindspeed, and not of patchcore run")


@hookimpl
def advise(name: str, command: str) -> Optional[str]:
    """Name the command that knows the features of MindSpeed, for ``patchcore explain mindspeed.FEATURE``."""
    if command != "patch" or not name.startswith("mindspeed."):
        return None
    return (
        "the features of MindSpeed depend on the arguments of the program: "
        f"patchcore plan --compat mindspeed --explain {name} -- ARGUMENTS"
    )


def _take_part(patcher: Patcher) -> None:
    from mindspeed_compat.run import take_part  # for the processes of such a run

    take_part(patcher)
