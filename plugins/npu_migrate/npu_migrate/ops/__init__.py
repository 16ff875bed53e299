"""``patchcore ops``: lists the operators that a program runs, and whether torch_npu has them.

:mod:`.tracing` sees the operators of a process, in every process of a run that has ``--trace-operators DIR``;
:mod:`.records` has the records that it writes, with the phase (:mod:`.phases`) and the line (:mod:`.sites`) of each
call. :mod:`.tables` has the operators of releases of torch_npu, from data files, and :mod:`.judging` puts both
together. :mod:`.command` is the command, :mod:`.running` starts its processes, :mod:`.printing` and :mod:`.page` show
the result.

Importing this imports no torch.
"""
