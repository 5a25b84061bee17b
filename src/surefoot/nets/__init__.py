"""Building blocks of networks: initialization, MLP, CNN."""
