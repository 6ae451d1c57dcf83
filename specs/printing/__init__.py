"""The one layout of a specification."""
