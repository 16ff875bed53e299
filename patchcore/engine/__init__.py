"""The engine puts patches in force, when their modules are imported, whole or not at all, and takes them back."""
