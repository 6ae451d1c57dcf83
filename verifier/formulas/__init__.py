"""Formulas over points and networks, decided as linear questions."""

from __future__ import annotations

from leaveout.verifier.formulas.job import FormulaJob, load_formula
from leaveout.verifier.formulas.run import decide_formula

__all__ = ["FormulaJob", "decide_formula", "load_formula"]
