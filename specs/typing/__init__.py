"""Names resolved and expressions typed."""
