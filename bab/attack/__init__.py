"""Seek counter-examples: sample, ascend by linear programs, refine, and replay in float32."""
