"""From prices to a world to trade in: checked data, causal features, a simulator of many accounts."""
