"""Inputs where forests disagree, by branch and bound over boxes of cells."""
