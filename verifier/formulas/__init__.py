"""Formulas over points and networks, decided as linear questions."""

from __future__ import annotations

from leaveout.verifier.formulas.job import Asked, FormulaJob, load_formula, why_no_formula
from leaveout.verifier.formulas.run import claimed, decide_formula

__all__ = ["Asked", "FormulaJob", "claimed", "decide_formula", "load_formula", "why_no_formula"]
