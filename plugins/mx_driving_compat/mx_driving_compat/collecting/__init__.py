"""Collects the patches of a migration, and applies them: the patcher of API 2.0 and the builder of API 1.0."""
