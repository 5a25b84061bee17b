"""Settings of the whole suite."""

from __future__ import annotations

import signal

import torch

# A shell that starts the tests in the background lets them ignore Ctrl-C, which some of them send to themselves.
signal.signal(signal.SIGINT, signal.default_int_handler)
torch.set_num_threads(1)
