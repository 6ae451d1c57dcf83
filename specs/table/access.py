"""Access: a network behind a guard, and what its answers may reveal."""

from __future__ import annotations

from leaveout.specs.table.signatures import Function, Parameter
from leaveout.specs.types import ACCESS, BOOLEAN, NUMBER, TEXT

FUNCTIONS: tuple[Function, ...] = (
    Function(
        "access",
        (Parameter("path", (TEXT,)),),
        ACCESS,
        "Label-only access to a network behind a guard: a folder with the network, its family "
        "and the bounds that the guard relies on.",
        'let A = access("family")',
        reads=True,
    ),
    Function(
        "idp",
        (
            Parameter("access", (ACCESS,)),
            Parameter("epsilon", (NUMBER,), named=True, least=0),
        ),
        BOOLEAN,
        "Whether the guard noises every input of its box at which some member answers "
        "differently, so that the probability of each answer changes by a factor of at most "
        "exp(epsilon).",
        'idp(access("family"), epsilon = 0.2)',
        threat="the training set loses any one point",
        kernels=("points", "guard"),
        words="whichever one training point is left out, no label that the guard of {access} "
        "returns gets more or less likely by more than a factor of exp({epsilon})",
    ),
)
