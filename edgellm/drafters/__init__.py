"""Guesses for tokens to come, so that one step computes several that prove right."""

from edgellm.drafters.draft_model import DraftModel
from edgellm.drafters.drafter import Drafter
from edgellm.drafters.head_runner import HeadRunner
from edgellm.drafters.mtp import MTP
from edgellm.drafters.prompt_lookup import PromptLookup
from edgellm.drafters.speculation import Speculation

__all__ = ["MTP", "DraftModel", "Drafter", "HeadRunner", "PromptLookup", "Speculation"]
