"""The chat in the terminal. Sees the engine through `edgellm.client` alone."""
