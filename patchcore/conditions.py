"""Does a patch fit this environment? Answered from metadata, without importing what it asks about."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple, Optional

from patchcore.changes import Skip
from patchcore.errors import DeclarationError
from patchcore.modules import find_module, namespace
from patchcore.patch import Patch
from patchcore.report import FAILED, SKIPPED

__all__ = ["Environment", "Verdict"]


class Verdict(NamedTuple):
    """What a plan decides for a patch: ``status`` is ``pending`` (go), ``skipped`` or ``failed``, with the reason."""

    status: str
    reason: str = ""


class Environment:
    """What is installed here, looked up once for a whole plan.

    An import package is met by whichever distribution provides it: ``mmcv`` by mmcv, mmcv-full or mmcv-lite.
    """

    def __init__(self) -> None:
        self._versions: dict[str, Optional[str]] = {}
        self._requirements: dict[str, Optional[str]] = {}
        self._found: dict[str, bool] = {}
        self._providers: Optional[dict[str, list[str]]] = None

    def is_module(self, name: str) -> bool:
        """Tell whether module ``name`` can be found, without importing it or its parents."""
        if name not in self._found:
            self._found[name] = find_module(name)
        return self._found[name]

    def version(self, package: str) -> Optional[str]:
        """Return the version of the distribution that provides import package ``package``, or ``None``.

        A package without metadata (a source checkout on the path) answers with its ``__version__`` if it is loaded.
        """
        if package not in self._versions:
            self._versions[package] = self._distribution_version(package) or _loaded_version(package)
        return self._versions[package]

    def unmet(self, requirement: str) -> Optional[str]:
        """Return why ``requirement`` (``"mmcv>=2,<3"``) is not met here, ``None`` when it is.

        Raises:
            DeclarationError: the requirement is malformed.
        """
        if requirement not in self._requirements:
            self._requirements[requirement] = self._check(requirement)
        return self._requirements[requirement]

    def judge(self, patch: Patch) -> Verdict:
        """Decide whether ``patch`` fits: requirements, needed modules, its ``when``, its targets' libraries.

        A bug in ``when`` or a malformed requirement is ``failed``, never ``skipped``.
        """
        try:
            for requirement in patch.requires:
                reason = self.unmet(requirement)
                if reason is not None:
                    return Verdict(SKIPPED, reason)
            for name in patch.needs:
                if not self.is_module(name):
                    return Verdict(SKIPPED, f"needs module {name}, which is neither installed nor emulated here")
            for root in dict.fromkeys(change.target.root for change in patch.changes):
                if not self.is_module(root):
                    return Verdict(SKIPPED, f"{root} is not installed")
            return _ask(patch)
        except Exception as error:
            return Verdict(
                FAILED, " ".join(str(error).split()) if isinstance(error, DeclarationError) else _describe(patch, error)
            )

    def _check(self, text: str) -> Optional[str]:
        from packaging.requirements import InvalidRequirement, Requirement

        try:
            requirement = Requirement(text)
        except InvalidRequirement as error:
            raise DeclarationError(f"requires={text!r} is not a requirement like 'mmcv>=2,<3': {error}") from error
        if requirement.marker is not None and not requirement.marker.evaluate():
            return None
        package = requirement.name.replace("-", "_")
        version = self.version(package)
        if version is None:
            if not self.is_module(package):
                return f"requires {text}, {package} is not installed"
            if not requirement.specifier:
                return None
            return f"requires {text}, the version of {package} cannot be told: no distribution provides it"
        if requirement.specifier.contains(version, prereleases=True):
            return None
        return f"requires {text}, found {package} {version}"

    def _distribution_version(self, package: str) -> Optional[str]:
        import importlib.metadata as metadata

        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            pass
        if not self.is_module(package):
            return None
        if self._providers is None:
            self._providers = _packages_distributions()
        for distribution in self._providers.get(package, ()):
            return metadata.version(distribution)
        return None


def _packages_distributions() -> dict[str, list[str]]:
    if sys.version_info >= (3, 10):
        from importlib.metadata import packages_distributions
    else:
        from importlib_metadata import packages_distributions
    return dict(packages_distributions())


def _loaded_version(package: str) -> Optional[str]:
    module = sys.modules.get(package)
    version = (namespace(module) or {}).get("__version__") if module is not None else None
    return version if isinstance(version, str) else None


def _ask(patch: Patch) -> Verdict:
    answer: Any = True if patch.when is None else patch.when()
    if isinstance(answer, Skip):
        return Verdict(SKIPPED, answer.reason)
    if not isinstance(answer, bool):
        raise DeclarationError(f"when of patch {patch.name} returned {answer!r}; expected True, False or Skip('why')")
    return Verdict("pending") if answer else Verdict(SKIPPED, "its when condition is false")


def _describe(patch: Patch, error: Exception) -> str:
    import traceback

    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"its when condition raised {type(error).__name__}: {error} ({frame.filename}:{frame.lineno})"
