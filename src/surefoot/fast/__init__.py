"""Compiled acting and steps, and their cache. The library works without this room, only slower.

`accelerate` is the one door: it puts faster parts in place of plain ones, which compute the same.
"""

from surefoot.fast.acceleration import accelerate

__all__ = ["accelerate"]
