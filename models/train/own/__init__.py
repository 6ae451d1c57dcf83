"""Families of networks that users train themselves: `leave_one_out`."""

from __future__ import annotations

from leaveout.models.train.own.family import TrainingWarning, leave_one_out

__all__ = ["TrainingWarning", "leave_one_out"]
