"""The calls of operators that are tried. Importing this imports torch."""

from npu_graph.conformance.cases.case import EVERY, FLOATS, INTEGERS, NUMBERS, Case, Inputs
from npu_graph.conformance.cases.elementwise import BINARY, UNARY
from npu_graph.conformance.cases.images import IMAGES
from npu_graph.conformance.cases.indexing import INDEXING
from npu_graph.conformance.cases.layout import LAYOUT
from npu_graph.conformance.cases.made import MADE
from npu_graph.conformance.cases.matrices import MATRICES
from npu_graph.conformance.cases.reductions import REDUCTIONS

__all__ = ["CASES", "EVERY", "FLOATS", "INTEGERS", "NUMBERS", "Case", "Inputs"]

CASES = (*UNARY, *BINARY, *MADE, *REDUCTIONS, *LAYOUT, *INDEXING, *MATRICES, *IMAGES)
