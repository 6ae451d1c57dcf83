"""Learners with provable survival: nearest neighbours, and small trees."""
