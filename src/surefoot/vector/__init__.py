"""Environments behind one interface: adapters, autoreset, checks, normalizers."""
