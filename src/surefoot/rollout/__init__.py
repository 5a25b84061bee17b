"""Experience: environments of every kind as true transitions, normalisers, the guard, the buffer, the collector."""
