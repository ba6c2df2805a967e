"""Pictures of results; reads only what was stored, never a model."""
