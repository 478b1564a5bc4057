"""Measures of a model's quality, through the public Python API."""
