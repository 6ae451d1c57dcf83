"""Attacks on unlearning models, and what their trials establish."""
