"""Which operators a program runs, and which of them torch_npu has: ``patchcore ops``.

:mod:`.tracing` sees the operators of a process, in every process of a run that has ``--trace-operators DIR``;
:mod:`.records` is what it writes down, with the phase (:mod:`.phases`) and the line (:mod:`.sites`) of each call.
:mod:`.tables` knows what releases of torch_npu have, from data files, and :mod:`.judging` puts both together.
:mod:`.command` is the command, :mod:`.running` starts its processes, :mod:`.printing` and :mod:`.page` show the result.

Importing this imports no torch.
"""
