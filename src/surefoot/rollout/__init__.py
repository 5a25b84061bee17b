"""Experience: environments of every kind as true transitions, normalizers, the guard, the buffer, the collector."""
