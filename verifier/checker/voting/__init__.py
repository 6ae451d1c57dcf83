"""Claims about votes of base classifiers: counted anew, in whole numbers."""
