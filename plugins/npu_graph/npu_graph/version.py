"""The version of this distribution, which is part of the key of every kernel in the cache."""

VERSION = "0.1.0"
