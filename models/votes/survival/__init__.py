"""Learners whose members say what they survive: nearest neighbours, and small trees."""
