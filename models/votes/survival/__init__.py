"""Learners with provable thresholds: nearest neighbours, and small trees."""
