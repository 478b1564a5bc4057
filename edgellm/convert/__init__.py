"""From the folders that models are published in to GGUF files."""
