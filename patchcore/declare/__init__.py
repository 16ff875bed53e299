"""Declarations: what a patch is made of, as immutable values. Nothing here knows how they are put in force."""
