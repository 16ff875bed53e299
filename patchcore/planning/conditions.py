"""Does a patch fit this environment? Answered from metadata, without importing what it asks about."""

from __future__ import annotations

import functools
import sys
from collections.abc import Container
from typing import Any, Callable, NamedTuple, Optional

from patchcore.declare.changes import Skip, needed_libraries
from patchcore.declare.patch import Patch
from patchcore.errors import CONTAINED, DeclarationError, describe_error
from patchcore.objects.modules import find_module, namespace
from patchcore.objects.printable import shown
from patchcore.planning.distributions import is_in, parse_requirement, version_of, version_of_provider
from patchcore.report import FAILED, PENDING, SKIPPED

__all__ = ["BY_CHOICE", "BY_CONFLICT", "BY_FIT", "Environment", "Verdict"]

#: What a verdict goes by: whether the patch fits here, what a user or its author chose, or another patch.
BY_FIT, BY_CHOICE, BY_CONFLICT = "fit", "choice", "conflict"


class Verdict(NamedTuple):
    """What a plan decides for a patch.

    Args:
        status: ``pending`` (go), ``skipped`` or ``failed``.
        reason: why it is not to be applied.
        cause: ``BY_FIT``, ``BY_CHOICE`` or ``BY_CONFLICT``.
        rival: of a conflict, the patch that is applied instead.
    """

    status: str
    reason: str = ""
    cause: str = BY_FIT
    rival: Optional[str] = None


_FITS = Verdict(PENDING)


class Environment:
    """What is installed here, looked up once for a whole plan.

    An import package is met by whichever distribution provides it: ``mmcv`` by mmcv, mmcv-full or mmcv-lite.
    """

    def __init__(self) -> None:
        #: Tells whether a module can be found, without importing it or its parents.
        self.is_module: Callable[[str], bool] = functools.cache(find_module)
        #: Returns what :meth:`version` does, ``None`` for a package that no distribution provides, loaded or not.
        self.released_version: Callable[[str], Optional[str]] = functools.cache(self._find_version)
        #: Returns why a requirement (``"mmcv>=2,<3"``) is not met here, ``None`` when it is; raises
        #: :class:`DeclarationError` where it is malformed.
        self.unmet: Callable[[str], Optional[str]] = functools.cache(self._check)

    def version(self, package: str) -> Optional[str]:
        """Return the version of the distribution that provides import package ``package``, or ``None``.

        A package without metadata (a source checkout on the path) answers with its ``__version__`` if it is loaded.
        """
        return self.released_version(package) or _loaded_version(package)

    def judge(self, patch: Patch, stubs: Container[str] = ()) -> Verdict:
        """Decide whether ``patch`` fits: requirements, needed modules, its ``when``, its targets' libraries.

        Changes of imports also fit libraries of ``stubs``, which other patches make importable. A bug in ``when`` or a
        malformed requirement is ``failed``, never ``skipped``.
        """
        try:
            with CONTAINED:  # finders of others say what is there
                reason = self._misfit(patch, stubs)
        except Exception as error:
            return Verdict(FAILED, describe_error(error))
        if reason is not None:
            return Verdict(SKIPPED, reason)
        return _FITS if patch.when is None else _ask(patch.when)

    def misfits(self, patch: Patch) -> bool:
        """Tell whether requirements, needed modules or libraries keep ``patch`` from being applied."""
        try:
            return self._misfit(patch, ()) is not None
        except Exception:  # which :meth:`judge` has said
            return False

    def _misfit(self, patch: Patch, stubs: Container[str]) -> Optional[str]:
        unmet = next(filter(None, map(self.unmet, patch.requires)), None)
        if unmet is not None:
            return unmet
        for name in patch.needs:
            if not self.is_module(name):
                but = " (patches add only a stub of it)" if name.partition(".")[0] in stubs else ""
                return f"needs module {name}, which is neither installed nor emulated here{but}"
        for root in needed_libraries(patch.changes, stubs):
            if not self.is_module(root):
                return f"{root} is not installed"
        return None

    def _find_version(self, package: str) -> Optional[str]:
        found = version_of(package)
        return version_of_provider(package) if found is None and self.is_module(package) else found

    def _check(self, text: str) -> Optional[str]:
        try:
            name, specifiers, holds = parse_requirement(text)
        except ValueError as error:  # InvalidRequirement, InvalidSpecifier
            raise DeclarationError(f"requires={text!r} is not a requirement like 'package>=2,<3': {error}") from error
        if not holds:
            return None
        package = name.replace("-", "_")
        version = self.version(package)
        if version is None:
            if not self.is_module(package):
                return f"requires {text}, {package} is not installed"
            if not specifiers:
                return None
            return f"requires {text}, the version of {package} is unknown: no distribution provides it"
        try:
            if is_in(version, specifiers):
                return None
        except ValueError:  # InvalidVersion
            return (
                f"requires {text}, the version {version!r} of {package} cannot be compared: it is not a PEP 440 version"
            )
        return f"requires {text}, found {package} {version}"


def _loaded_version(package: str) -> Optional[str]:
    module = sys.modules.get(package)
    version = (namespace(module) or {}).get("__version__") if module is not None else None
    return version if isinstance(version, str) else None


def _ask(when: Callable[[], Any]) -> Verdict:
    try:
        answer: Any = when()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also sys.exit(): a condition may end itself, not the program
        return Verdict(FAILED, f"its when condition raised {describe_error(error)} ({_place(when, error)})")
    if isinstance(answer, Skip):
        return Verdict(SKIPPED, answer.reason)
    if not isinstance(answer, bool):
        return Verdict(FAILED, f"its when condition returned {shown(answer)}; expected True, False or Skip('why')")
    return _FITS if answer else Verdict(SKIPPED, "its when condition is false")


def _place(when: Any, error: BaseException) -> str:
    """Where ``error`` was raised: the innermost line in the condition's own file, if there is one."""
    from patchcore.stdlib import traceback

    frames = traceback.extract_tb(error.__traceback__)
    own = getattr(getattr(when, "__code__", None), "co_filename", None)
    frame = next((f for f in reversed(frames) if f.filename == own), frames[-1])
    return f"{frame.filename}:{frame.lineno}"
