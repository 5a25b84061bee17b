"""Causal features: one registry, one pipeline for training, evaluation and live use."""

from surefoot.market.features.base import Feature
from surefoot.market.features.pipeline import FeaturePipeline, FeatureStream, Scaled
from surefoot.market.features.registry import FEATURES, build_feature, build_features, default_features
from surefoot.market.features.statistics import FeatureStatistics

__all__ = [
    "FEATURES",
    "Feature",
    "FeaturePipeline",
    "FeatureStatistics",
    "FeatureStream",
    "Scaled",
    "build_feature",
    "build_features",
    "default_features",
]
