"""Attacks on models that unlearn, and what their trials establish."""
