"""Profiling and brake: what acts on the steps of a training program, whatever its loop is.

Nothing here copies a loop. The per-iteration methods of training loops are wrapped (:mod:`~patchcore.builtin.training.loops`)
and counted (:mod:`~patchcore.builtin.training.steps`); profiling and brake are patches too, around the one function that every
counted step ends in. Loaded only where profiling or a brake is asked for.
"""
