"""Conversations on disk. Knows nothing of screens or engines."""

from edgellm.tui.history.history import History
from edgellm.tui.history.store import HistoryError, Store

__all__ = ["History", "HistoryError", "Store"]
