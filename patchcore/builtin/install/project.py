"""The two facts that all lines about installing this project depend on, and that its metadata is written from."""

__all__ = ["RELEASED", "URL"]

#: The address of the repository, for ``git clone``; empty while it has none.
URL = ""

#: Whether the package index has the distributions. See "Releasing" in CONTRIBUTING.md.
RELEASED = False
