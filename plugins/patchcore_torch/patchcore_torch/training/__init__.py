"""Counts training steps, profiles some of them, and ends a program after one."""
