"""Terminal output: progress, tables and lines."""
