"""Building blocks of networks: initialisation, MLP, CNN."""
