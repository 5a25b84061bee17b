"""Action distributions: one family for each kind of action space."""

from surefoot.dists.interface import Distribution, Family
from surefoot.dists.registry import Kind, family_for

__all__ = ["Distribution", "Family", "Kind", "family_for"]
