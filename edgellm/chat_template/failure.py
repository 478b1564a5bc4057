"""What the renderers raise; apart, so that neither need import the other."""


class TemplateFailure(Exception):
    """A template cannot be rendered; the message is for the user."""
