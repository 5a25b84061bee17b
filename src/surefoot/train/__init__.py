"""Training: the loop, callbacks, logs, the run directory."""
