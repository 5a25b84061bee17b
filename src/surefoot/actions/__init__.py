"""Action distributions, heads and masks. Heads and masks know no torch: worker processes do without it."""
