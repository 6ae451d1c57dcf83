"""Attacks: sample, ascend by linear programs, refine, and replay in float32."""
