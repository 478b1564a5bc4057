"""Screens over the conversation. Each returns what the user decided, None for nothing."""
