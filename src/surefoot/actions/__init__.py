"""Action distributions: one family for each kind of action space."""

from surefoot.actions.distribution import Distribution, Family
from surefoot.actions.registry import Kind, family_for

__all__ = ["Distribution", "Family", "Kind", "family_for"]
