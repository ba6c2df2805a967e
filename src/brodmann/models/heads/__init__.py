"""Attention heads inside a model: gating, measuring, slicing and removing them."""
