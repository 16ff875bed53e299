"""Make a release of every distribution of this checkout: versions, bounds, changelog, sdists, wheels, checks.

``nox -s release -- 0.2.0`` calls it. It uploads nothing, commits nothing and tags nothing: the last lines it prints do.
When a step fails, the files that it changed are as they were before.
"""

from __future__ import annotations

import argparse
import datetime
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parent.parent
#: Holds the version of the core, and with it that of every distribution.
CORE = Path("patchcore/__init__.py")
CHANGELOG = Path("CHANGELOG.md")
#: Holds the address of the repository, and whether the package index has the distributions.
PROJECT = Path("patchcore/builtin/install/project.py")
#: A command line that pages show, and where to stand before there was a release.
_INSTALL = re.compile(r"python -m pip install (?P<arguments>[^`#\n]*[^`#\s])(?: +# in a checkout)?")
#: Lines that state a version: ``__version__ = "0.1.0"``, ``VERSION = ...``, ``version = ...``.
_STATEMENT = r'^(?P<before>(?:__version__|VERSION|version) = ")(?P<version>[^"]+)(?P<after>")'
_UNRELEASED = "## Unreleased\n"
#: Figures that a tool measured and wrote into a page, with the versions that it measured.
_MEASURED = re.compile(r"<!-- figures of .*?<!-- end -->", re.DOTALL)


class ReleaseError(Exception):
    """The release cannot be made; the message says why and what to do."""


def distributions(root: Path) -> dict[str, Path]:
    """Return the folders of the distributions by name."""
    folders = [root, *sorted(path.parent for path in root.glob("plugins/*/pyproject.toml"))]
    return {_find(r'^name = "(.+)"$', folder / "pyproject.toml"): folder for folder in folders}


def current_version(root: Path) -> Version:
    """Return the version of the checkout."""
    return Version(_find(r'^__version__ = "(.+)"$', root / CORE))


def next_version(root: Path, text: str) -> Version:
    """Return the version that ``text`` names.

    Raises:
        ReleaseError: it is no version, not written in the normal form, or not newer than that of the checkout.
    """
    try:
        version = Version(text)
    except InvalidVersion:
        raise ReleaseError(f"{text!r} is not a version; write it as 0.2.0, or 0.2.0rc1") from None
    if str(version) != text or version.local:
        raise ReleaseError(f"{text!r} is not a version in its normal form; write it as {version.public}")
    current = current_version(root)
    if version <= current:
        raise ReleaseError(f"{version} is not newer than {current}, the version of this checkout")
    return version


def refuse_dirty(root: Path) -> None:
    """Refuse a checkout with changes that are not committed.

    Raises:
        ReleaseError: there are some, or it is not a checkout.
    """
    command = ["git", "status", "--porcelain"]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ReleaseError(f"{root} is not a git checkout: {getattr(error, 'stderr', None) or error}") from error
    if done.stdout:
        raise ReleaseError(f"these changes are not committed:\n{done.stdout.rstrip()}\ncommit them, or: git stash -u")


def new_texts(root: Path, version: Version, date: str) -> dict[Path, str]:
    """Return the files that a release changes, with their new texts.

    Args:
        root: of the checkout.
        version: of the release.
        date: of the release, ``2026-11-30``.

    Raises:
        ReleaseError: the changelog has nothing under "Unreleased"; the project has no URL.
    """
    old = str(current_version(root))
    names = distributions(root)
    changed = {root / PROJECT: _as_released((root / PROJECT).read_text(encoding="utf-8"))}
    url = project_url(root)
    for folder in names.values():
        for file in (folder / "pyproject.toml", *sorted(folder.glob("*/__init__.py")), *folder.glob("*/version.py")):
            changed[file] = _with_version(file.read_text(encoding="utf-8"), old, str(version))
    changed |= {file: file.read_text(encoding="utf-8") for file in root.glob("examples/*/pyproject.toml")}
    for file in [path for path in changed if path.name == "pyproject.toml"]:
        changed[file] = _with_bounds(changed[file], names, str(version))
    for folder in names.values():
        changed[folder / "pyproject.toml"] = _with_url(changed[folder / "pyproject.toml"], url)
    for file in _pages(root):
        text = _with_names(file.read_text(encoding="utf-8"), root, names)
        changed[file] = _with_quotes(text, names, old, str(version))
    changed[root / CHANGELOG] = _with_heading((root / CHANGELOG).read_text(encoding="utf-8"), version, date)
    return {file: text for file, text in changed.items() if text != file.read_text(encoding="utf-8")}


def project_url(root: Path) -> str:
    """Return the address of the repository.

    Raises:
        ReleaseError: none is set.
    """
    url = _find(r'^URL = "(.*)"$', root / PROJECT)
    if not url:
        raise ReleaseError(f"the project has no address: set URL in {PROJECT}, every distribution gets it")
    return url


def _as_released(text: str) -> str:
    return re.sub(r"^RELEASED = False$", "RELEASED = True", text, flags=re.MULTILINE)


def _with_url(text: str, url: str) -> str:
    """Return a pyproject.toml with the address of the repository, in the place of another one."""
    text = re.sub(r'^\[project\.urls\]\n(?:\w+ = ".*"\n)*\n', "", text, flags=re.MULTILINE)
    return re.sub(
        r"^(?=\[project\.(?!urls))", f'[project.urls]\nSource = "{url}"\n\n', text, count=1, flags=re.MULTILINE
    )


def requirements_of(arguments: str, root: Path, names: dict[str, Path]) -> list[str]:
    """Return what a command line that a page shows installs: names in the place of folders of the checkout.

    Args:
        arguments: of ``pip install``.
        root: of the checkout.
        names: the distributions, see :func:`distributions`.
    """
    of_folder = {
        "." if folder == root else f"./{folder.relative_to(root).as_posix()}": n for n, folder in names.items()
    }
    parts = (re.fullmatch(r"([^[]*)(.*)", argument) for argument in shlex.split(arguments))
    return [of_folder.get(part[1], part[1]) + part[2] for part in parts if part]


def _with_names(text: str, root: Path, names: dict[str, Path]) -> str:
    """Return a page whose command lines install our distributions by name."""

    def replaced(found: re.Match[str]) -> str:
        if "./plugins/" not in found["arguments"]:
            return found[0]
        requirements = requirements_of(found["arguments"], root, names)
        return f"python -m pip install {' '.join(map(shlex.quote, requirements))}"

    return _INSTALL.sub(replaced, text)


def _find(pattern: str, file: Path) -> str:
    found = re.search(pattern, file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    if found is None:
        raise ReleaseError(f"{file} has no line that matches {pattern}")
    return found.group(1)


def _with_version(text: str, old: str, new: str) -> str:
    def replaced(found: re.Match[str]) -> str:
        return found["before"] + (new if found["version"] == old else found["version"]) + found["after"]

    return re.sub(_STATEMENT, replaced, text, flags=re.MULTILINE)


def _with_bounds(text: str, names: Iterable[str], new: str) -> str:
    any_name = "|".join(map(re.escape, names))
    return re.sub(rf'"({any_name})(\[[^]]*\])?>=[^",;]+', rf'"\1\2>={new}', text)


def _pages(root: Path) -> Iterator[Path]:
    yield from sorted(root.glob("docs/**/*.md"))
    yield from sorted(root.glob("examples/*/README.md"))
    yield from sorted(root.glob("plugins/*/*.md"))
    yield from sorted([*root.glob("README*.md"), *root.glob("DESCRIPTION.md")])


def _with_quotes(text: str, names: Iterable[str], old: str, new: str) -> str:
    """Change outputs that pages quote: ``npu-graph 0.1.0``, ``"patchcore": "0.1.0"``, ``patchcore==0.1.0``.

    Measured figures keep the version that they were measured with.
    """
    any_name = "|".join(map(re.escape, names))
    quote = re.compile(rf'(?<![\w-])({any_name})( +| = "|": "|==|>=|-){re.escape(old)}(?![\w.])')

    def changed(text: str) -> str:
        return quote.sub(rf"\g<1>\g<2>{new}", text)

    parts, end = [], 0
    for measured in _MEASURED.finditer(text):
        parts += (changed(text[end : measured.start()]), measured[0])
        end = measured.end()
    return "".join([*parts, changed(text[end:])])


def _with_heading(text: str, version: Version, date: str) -> str:
    before, found, after = text.partition(_UNRELEASED)
    news = after.partition("\n## ")[0]
    if not found or not news.strip():
        raise ReleaseError(f'{CHANGELOG} has nothing under "{_UNRELEASED.strip()}": say what is new')
    return f"{before}{_UNRELEASED}\n## {version} ({date})\n{after}"


# --- what is built ----------------------------------------------------------------------------------------------------


def build(folder: Path, out: Path) -> None:
    """Build the sdist of a distribution, and from it the wheel, in an environment that has the build backend only."""
    _run(sys.executable, "-m", "build", "--outdir", out, folder)


def check(out: Path, names: Iterable[str], version: Version) -> None:
    """Check what was built: descriptions, versions, and that the wheels can be installed and used together.

    Raises:
        ReleaseError: a check fails.
    """
    files = sorted(out.iterdir())
    _run(sys.executable, "-m", "twine", "check", "--strict", *files)
    stems = [f"{name.replace('-', '_')}-{version}" for name in names]
    expected = {f"{stem}{ending}" for stem in stems for ending in (".tar.gz", "-py3-none-any.whl")}
    if expected != {file.name for file in files}:
        raise ReleaseError(f"expected {sorted(expected)} in {out}, found {[file.name for file in files]}")
    wheels = [file for file in files if file.suffix == ".whl"]
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            if not any(name.endswith("/py.typed") for name in archive.namelist()):
                raise ReleaseError(f"{wheel.name} has no py.typed")
    with tempfile.TemporaryDirectory() as scratch:
        venv.create(scratch, with_pip=True)
        python = Path(scratch, "bin", "python")
        _run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wheels)
        _run(python, "-m", "pip", "check")
        _run(python, "-m", "patchcore", "check", cwd=scratch)


def _run(*command: object, cwd: object = None) -> None:
    arguments = [str(part) for part in command]
    print("+", *arguments, flush=True)
    code = subprocess.run(arguments, cwd=str(cwd) if cwd else None).returncode
    if code:
        raise ReleaseError(f"exit code {code} of: {' '.join(arguments)}")


def release(root: Path, text: str, out: Path) -> None:
    """Make the release ``text`` of the checkout at ``root`` in the folder ``out``.

    Raises:
        ReleaseError: it cannot be made; the files of the checkout are as they were.
    """
    version = next_version(root, text)
    refuse_dirty(root)
    texts = new_texts(root, version, datetime.date.today().isoformat())
    before = {file: file.read_text(encoding="utf-8") for file in texts}
    try:
        for file, new in texts.items():
            file.write_text(new, encoding="utf-8")
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        names = distributions(root)
        for folder in names.values():
            build(folder, out)
        check(out, names, version)
    except BaseException:
        for file, old in before.items():
            file.write_text(old, encoding="utf-8")
        raise
    print(f"\n{len(names)} distributions {version} are in {out}; {len(texts)} files were changed. Next:")
    print(f"  git diff\n  git commit -am 'Release {version}' && git tag v{version}")
    print(f"  python -m twine upload {out}/*")


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="nox -s release --", description="Make a release; upload nothing.")
    parser.add_argument("version", help="of all distributions: 0.2.0")
    version = parser.parse_args().version
    try:
        release(ROOT, version, ROOT / "dist" / version)
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
