"""Any tree at all, for hypothesis to make up."""

import re

from hypothesis import strategies as st

from leaveout.specs import (
    And,
    Arithmetic,
    Binder,
    Call,
    Compare,
    Confident,
    Find,
    ForAll,
    Guarantee,
    Implies,
    Include,
    Let,
    ListOf,
    Name,
    Negate,
    Not,
    Number,
    Option,
    Or,
    Param,
    Spec,
    Text,
)

RESERVED = re.findall(
    r"\w+",
    """
    let param include guarantee find least greatest per such that forall in but or and not with
""",
)
words = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True).filter(
    lambda word: word not in RESERVED
)
numbers = st.builds(Number, st.floats(allow_nan=False, allow_infinity=False))
texts = st.builds(
    Text, st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
)


def tuples(strategy, least=0):
    return st.lists(strategy, min_size=least, max_size=3).map(tuple)


def composed(inner):
    return st.one_of(
        st.builds(ListOf, tuples(inner)),
        st.builds(Call, words, tuples(inner), tuples(st.builds(Option, words, inner))),
        st.builds(Negate, inner),
        st.builds(Arithmetic, inner, st.sampled_from("+-*/"), inner),
        st.builds(Compare, inner, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), inner),
        st.builds(Not, inner),
        st.builds(And, inner, inner),
        st.builds(Or, inner, inner),
        st.builds(Implies, inner, inner),
        st.builds(ForAll, tuples(st.builds(Binder, words, inner), least=1), inner),
        st.builds(Confident, inner, numbers),
    )


without_texts = st.recursive(st.one_of(numbers, st.builds(Name, words)), composed)
expressions = st.recursive(st.one_of(numbers, texts, st.builds(Name, words)), composed)
statements = st.one_of(
    st.builds(Let, words, expressions),
    st.builds(Param, words, expressions),
    st.builds(Include, texts),
    st.builds(Guarantee, words, expressions),
    st.builds(
        Find, words, st.sampled_from(["least", "greatest"]), words, st.booleans(), expressions
    ),
)
specs = st.lists(statements, min_size=1, max_size=4).map(tuple).map(Spec)
