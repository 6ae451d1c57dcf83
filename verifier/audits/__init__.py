"""Attacks on unlearning models, and conclusions from their trials."""
