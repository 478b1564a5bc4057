"""Arithmetic. Knows nothing of models, files or sequences."""
