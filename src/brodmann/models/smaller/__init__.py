"""Smaller models: neurons and vocabulary cut away, and what is left repaired."""
