"""From messages to a prompt, by the chat template of a model file.

`messages` checks and shapes the conversation, `template` chooses the template, `sandbox` renders it
with `growth` capping it, `worker` does so in a process of its own, `defaults` stands in for files
without one. Knows nothing of tokens, engines or front ends.
"""

from edgellm.chat_template.template import ChatTemplate, load_chat_template

__all__ = ["ChatTemplate", "load_chat_template"]
