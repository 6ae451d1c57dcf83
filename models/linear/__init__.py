"""Convex linear models, and all of them without some of their rows."""

from __future__ import annotations
