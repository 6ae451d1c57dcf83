"""From text to the tree, and back to the place of a mistake."""
