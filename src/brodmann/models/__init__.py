"""One encoder, many output heads: building, saving, scoring and asking models."""
