"""VNN-LIB: reads queries of versions 1.0 and 2.0; writes 2.0 and results."""

from leaveout.specs.vnnlib.problem import Declared, Problem, Tensor
from leaveout.specs.vnnlib.read import (
    Reading,
    load_problem,
    load_query,
    parse_problem,
    query_of,
)
from leaveout.specs.vnnlib.write import (
    Status,
    format_query,
    format_result,
    format_witness,
    save_assignment,
    save_query,
    save_result,
)

__all__ = [
    "Declared",
    "Problem",
    "Reading",
    "Status",
    "Tensor",
    "format_query",
    "format_result",
    "format_witness",
    "load_problem",
    "load_query",
    "parse_problem",
    "query_of",
    "save_assignment",
    "save_query",
    "save_result",
]
