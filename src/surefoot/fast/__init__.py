"""Compiled acting and steps, and their cache. The library works without this room, only slower."""
