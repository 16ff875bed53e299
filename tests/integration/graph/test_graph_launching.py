"""How a compiled graph is called."""

from __future__ import annotations

import weakref

import torch
from torch.fx import Graph, GraphModule

from npu_graph.pipeline.launching import boxed


def test_inputs_are_freed_when_the_last_operator_has_read_them():
    seen = []

    def look(value):
        seen.append(given())
        return value

    graph = Graph()
    negated = graph.call_function(torch.neg, (graph.placeholder("x"),))
    graph.output((graph.call_function(look, (negated,)),))
    inputs = [torch.ones(3)]
    given = weakref.ref(inputs[0])
    (result,) = boxed(GraphModule({}, graph))(inputs)
    assert result.tolist() == [-1, -1, -1]
    assert inputs == []
    assert seen == [None]
