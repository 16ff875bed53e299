"""Decides whether a patch fits this environment: from metadata of distributions, without importing the libraries."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FunctionType
from typing import Any, Callable, NamedTuple, Optional

from patchcore.declare.changes import Skip, needed_libraries
from patchcore.declare.patch import Patch
from patchcore.errors import CONTAINED, DeclarationError, describe_error
from patchcore.objects.generated import signature_of
from patchcore.objects.modules import find_module, namespace_of
from patchcore.objects.printable import shown
from patchcore.planning.distributions import is_in, parse_requirement, version_of, version_of_provider
from patchcore.report import FAILED, SKIPPED

__all__ = ["APPLY", "OFF", "PROGRAM", "WAITS", "Environment", "Program", "Verdict"]

#: Verdicts of a plan besides ``skipped`` and ``failed``: the patch is to be applied; its user or author has chosen that
#: it is not.
APPLY, OFF = "apply", "off"


#: The reason of a patch whose condition needs the arguments of the program, as long as there are none.
WAITS = "waits for the program's arguments, which patchcore.configure(arguments) gets"


class Program:
    """The arguments that the patched program has parsed itself; :func:`patchcore.configure` sets them.

    Args:
        arguments: any object, an ``argparse.Namespace`` for example; ``None`` until they are set.
    """

    def __init__(self) -> None:
        self.arguments: Any = None


PROGRAM = Program()


class Verdict(NamedTuple):
    """The decision of a plan on one patch.

    Args:
        word: ``apply``; ``off``: disabled, or not in the default set; ``skipped``: a library or condition that it needs
            is missing, or another patch excludes it; ``failed``: a conflict, or an error of its author.
        reason: why it is not applied.
        rival: of a conflict, the patch that is applied instead.
    """

    word: str
    reason: str = ""
    rival: Optional[str] = None


_APPLY = Verdict(APPLY)


class Environment:
    """Finds installed distributions and modules; each is looked up once for a whole plan.

    Any distribution that provides an import package meets its requirement: mmcv, mmcv-full and mmcv-lite meet ``mmcv``.

    Args:
        versions: by package, the version that it counts as, whichever is installed; the setting ``library_versions``.

    Examples:
        >>> from patchcore.plugin import Environment
        >>> environment = Environment()
        >>> environment.unmet("shop>=2")
        'requires shop>=2, shop is not installed'
    """

    def __init__(self, versions: Optional[Mapping[str, str]] = None) -> None:
        self._modules: dict[str, bool] = {}
        self._versions: dict[str, Optional[str]] = {}
        self._counts_as = versions or {}
        self._unmet: dict[str, Optional[str]] = {}

    def is_module(self, name: str) -> bool:
        """Return true if module ``name`` can be found; neither it nor its parents are imported."""
        if name not in self._modules:
            self._modules[name] = find_module(name)
        return self._modules[name]

    def released_version(self, package: str) -> Optional[str]:
        """Return :meth:`version`, but ``None`` for a package that no distribution provides."""
        if package not in self._versions:
            self._versions[package] = self._find_version(package)
        return self._versions[package]

    def unmet(self, requirement: str) -> Optional[str]:
        """Return why ``requirement`` (``"mmcv>=2,<3"``) is not met here, ``None`` if it is met.

        Raises:
            DeclarationError: it is malformed.
        """
        if requirement not in self._unmet:
            self._unmet[requirement] = self._check(requirement)
        return self._unmet[requirement]

    def version(self, package: str) -> Optional[str]:
        """Return the version of the distribution that provides import package ``package``, or ``None``.

        For a loaded package without metadata (a source checkout on the path) it is the package's ``__version__``.
        """
        return self.released_version(package) or _loaded_version(package)

    def judge(self, patch: Patch, provided: Optional[Mapping[str, bool]] = None) -> Verdict:
        """Decide whether ``patch`` can be applied: requirements, needed modules, its ``when``, its targets' libraries.

        A bug in ``when`` or a malformed requirement is ``failed``, never ``skipped``.

        Args:
            patch: to be applied.
            provided: libraries that other patches make importable, and whether they have content. Of stubs only imports
                can be changed.
        """
        try:
            with CONTAINED:  # finders on sys.meta_path may belong to other libraries and raise anything
                reason = self._missing(patch, provided or {})
        except Exception as error:
            return Verdict(FAILED, describe_error(error))
        if reason is not None:
            return Verdict(SKIPPED, reason)
        return _APPLY if patch.when is None else _ask(patch.when)

    def is_missing(self, patch: Patch) -> bool:
        """True if a requirement, module or library of ``patch`` is missing; its ``when`` is not called."""
        try:
            return self._missing(patch, {}) is not None
        except Exception:  # :meth:`judge` has made a failed verdict of it
            return False

    def has_libraries_of(self, patch: Patch) -> bool:
        """True if the libraries that ``patch`` changes and requires are installed in the versions it is for.

        Its other conditions, an NPU for example, are not checked.
        """
        try:
            if any(self.unmet(requirement) is not None for requirement in patch.requires):
                return False
        except DeclarationError:  # the verdict of the patch has it
            return False
        return all(map(self.is_module, needed_libraries(patch.changes)))

    def _missing(self, patch: Patch, provided: Mapping[str, bool]) -> Optional[str]:
        unmet = next(filter(None, map(self.unmet, patch.requires)), None)
        if unmet is not None:
            return unmet
        for name in patch.needs:
            if not self.is_module(name):
                but = " (patches add only a stub of it)" if provided.get(name.partition(".")[0]) is False else ""
                return f"needs module {name}, which is neither installed nor emulated here{but}"
        for root in needed_libraries(patch.changes, provided):
            if not self.is_module(root):
                return f"{root} is not installed"
        return None

    def _find_version(self, package: str) -> Optional[str]:
        if package in self._counts_as:
            return self._counts_as[package] if self.is_module(package) else None
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
        found = f"requires {text}, found {package} {version}"
        if "dev" not in version:
            return found
        hint = f'library_versions = {{{package} = "..."}} in [tool.patchcore] is the version that it counts as'
        return f"{found}, a development build ({hint})"


def _loaded_version(package: str) -> Optional[str]:
    module = sys.modules.get(package)
    version = (namespace_of(module) or {}).get("__version__") if module is not None else None
    return version if isinstance(version, str) else None


def _ask(when: Callable[..., Any]) -> Verdict:
    try:
        if not _takes_arguments(when):
            answer: Any = when()
        elif PROGRAM.arguments is None:
            return Verdict(SKIPPED, WAITS)
        else:
            answer = when(PROGRAM.arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also sys.exit(): a condition may end itself, not the program
        return Verdict(FAILED, f"its when condition raised {describe_error(error)} ({_place(when, error)})")
    if isinstance(answer, Skip):
        return Verdict(SKIPPED, answer.reason)
    if not isinstance(answer, bool):
        return Verdict(FAILED, f"its when condition returned {shown(answer)}; expected True, False or Skip('why')")
    return _APPLY if answer else Verdict(SKIPPED, "its when condition is false")


def _takes_arguments(when: Callable[..., Any]) -> bool:
    """Return true if a condition needs one argument: that of :func:`patchcore.configure`."""
    if type(when) is FunctionType:
        return when.__code__.co_argcount > len(when.__defaults__ or ())
    try:
        parameters = signature_of(when).parameters.values()
    except (TypeError, ValueError):  # of C, without a signature
        return False
    return any(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


def _place(when: Any, error: BaseException) -> str:
    """Return where ``error`` was raised: the innermost line in the condition's own file, if there is one."""
    from patchcore.stdlib import traceback

    frames = traceback.extract_tb(error.__traceback__)
    own = getattr(getattr(when, "__code__", None), "co_filename", None)
    frame = next((f for f in reversed(frames) if f.filename == own), frames[-1])
    return f"{frame.filename}:{frame.lineno}"
