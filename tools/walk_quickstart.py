"""Walk docs/quickstart.md in a fresh environment: install as the page says, run every command, compare every output.

    python tools/walk_quickstart.py

The page's own commands make the environment, in a copy of this checkout that is removed afterwards. After a release the
page has names of our distributions: they mean wheels built from this checkout, which needs pip and
requirements/build.txt. Everything else comes from pip's index. The exit code is 1 when something is not as the page
shows it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "helpers"))

from pages import blocks, split  # noqa: E402
from replay import difference  # noqa: E402

PAGE = ROOT / "docs" / "quickstart.md"
#: Of the environment of whoever runs this, what programs need to be found and packages to be downloaded.
KEPT = ("HOME", "LANG", "PATH", "SSL_CERT_FILE", "TMPDIR")
MARK = "=== command"


def main() -> int:
    """Walk, and return the exit code."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        checkout = copy_of_the_checkout(Path(temporary, "checkout"))
        folder = checkout.parent / "quickstart"  # the page makes it
        wheels = build_wheels(Path(temporary, "wheels"))
        environment = fresh_environment(wheels)
        wrong = 0
        found = 0
        for number, block in enumerate(blocks(PAGE)):
            if block.file:
                (folder / block.file).write_text(block.text, encoding="utf-8")
            elif block.language == "sh" and number == 0:
                print(block.text, end="", flush=True)
                subprocess.run(["bash", "-ec", block.text], cwd=checkout, env=environment, check=True)
                environment["PATH"] = os.pathsep.join([str(checkout / ".venv" / "bin"), environment["PATH"]])
            elif block.language == "console":
                for command, shown, missing in replay(block.text, folder, environment):
                    print(f"{'found ' if missing is None else 'WRONG '} $ {command}")
                    found += missing is None
                    wrong += missing is not None
                    if missing is not None:
                        print(f"the page shows:\n{shown}\nnot printed:\n{missing}")
    print(f"{found} outputs of docs/quickstart.md found, {wrong} not, in {time.monotonic() - began:.0f} s")
    return int(wrong > 0 or not found)


def copy_of_the_checkout(folder: Path) -> Path:
    """Copy the files of this checkout that git knows or does not ignore, and return the folder of the copy."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, listed):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def build_wheels(folder: Path) -> Path:
    """Build a wheel of each distribution of this checkout, and return their folder."""
    sources = [ROOT, *(file.parent for file in sorted(ROOT.glob("plugins/*/pyproject.toml")))]
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", f"--wheel-dir={folder}"]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, *map(str, sources)], check=True)
    return folder


def fresh_environment(wheels: Path) -> dict[str, str]:
    """Return the variables of a shell in which ``python3`` is this Python, and pip knows the wheels.

    Args:
        wheels: the folder with the wheels of our distributions.
    """
    settings = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith("PIP_")}
    folders = [settings.get("PIP_FIND_LINKS", ""), str(wheels)]
    return {
        **settings,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), settings.get("PATH", os.defpath)]),
        "PIP_FIND_LINKS": " ".join(filter(None, folders)),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_QUIET": "1",
    }


def replay(session: str, folder: Path, environment: dict[str, str]) -> list[tuple[str, str, str | None]]:
    """Run the commands of a session in one shell.

    Returns:
        Each command, what the page shows of it, and what was not printed of that, ``None`` where everything was.
    """
    shown = split(session)
    script = "".join(f"echo '{MARK}'\n{command}\n" for command, _ in shown)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env={**environment, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    printed = done.stdout.split(f"{MARK}\n")[1:]
    printed += [""] * (len(shown) - len(printed))  # of commands that a broken shell has not run
    return [(command, text, difference(text, said)) for (command, text), said in zip(shown, printed)]


if __name__ == "__main__":
    sys.exit(main())
