"""From observations to action distributions and value predictions."""
