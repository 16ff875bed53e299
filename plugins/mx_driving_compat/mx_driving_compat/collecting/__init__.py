"""Collects what a migration asks for, and applies it: the patcher of API 2.0 and the builder of API 1.0."""
