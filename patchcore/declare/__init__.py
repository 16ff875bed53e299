"""Declarations: patches, changes and targets, as immutable values. The engine applies them; nothing here imports it."""
