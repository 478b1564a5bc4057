"""Textual chat. Sees `edgellm.client` and `edgellm.types` only."""
