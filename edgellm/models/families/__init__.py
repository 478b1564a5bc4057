"""Rows of the table of architectures, a file per kind of model."""
