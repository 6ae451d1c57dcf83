"""Services that unlearn: accounting of what answers reveal, in rationals."""
