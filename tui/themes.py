"""The themes: colours alone. One accent, quiet surfaces, text that is easy to read."""

from dataclasses import replace

from textual.theme import BUILTIN_THEMES, Theme

_SHARED = {
    "block-cursor-text-style": "none",
    "footer-background": "transparent",
}

DARK = Theme(
    name="edgellm-dark",
    primary="#7aa2d6",
    secondary="#7aa2d6",
    accent="#7aa2d6",
    foreground="#d5d9e0",
    background="#15181d",
    surface="#1b1f26",
    panel="#252a33",
    success="#86b38a",
    warning="#d9a66c",
    error="#d97a7a",
    variables={
        **_SHARED,
        "muted": "#8a93a3",
        "border": "#3a414d",
        "border-blurred": "#2c323c",
        "input-selection-background": "#7aa2d6 30%",
        "block-cursor-foreground": "#e8ebf0",
        "block-cursor-background": "#2b3442",
        "scrollbar": "#2c323c",
        "scrollbar-background": "#15181d",
        "scrollbar-corner-color": "#15181d",
    },
)
LIGHT = Theme(
    name="edgellm-light",
    primary="#2f62a3",
    secondary="#2f62a3",
    accent="#2f62a3",
    foreground="#24292f",
    background="#fbfbfa",
    surface="#f3f3f1",
    panel="#e7e7e4",
    success="#3c7a45",
    warning="#9a6100",
    error="#b3383d",
    dark=False,
    variables={
        **_SHARED,
        "muted": "#6b7078",
        "border": "#c9c9c4",
        "border-blurred": "#dededa",
        "input-selection-background": "#2f62a3 25%",
        "block-cursor-foreground": "#1b1f24",
        "block-cursor-background": "#dbe4f0",
        "scrollbar": "#d4d4cf",
        "scrollbar-background": "#fbfbfa",
        "scrollbar-corner-color": "#fbfbfa",
    },
)
HIGH_CONTRAST = Theme(
    name="edgellm-high-contrast",
    primary="#ffd400",
    secondary="#ffd400",
    accent="#ffd400",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#1a1a1a",
    success="#5cff7a",
    warning="#ffb000",
    error="#ff6b6b",
    text_alpha=1.0,
    variables={
        **_SHARED,
        "muted": "#d0d0d0",
        "border": "#ffffff",
        "border-blurred": "#a0a0a0",
        "input-selection-background": "#ffd400 40%",
        "block-cursor-foreground": "#000000",
        "block-cursor-background": "#ffd400",
        "scrollbar": "#a0a0a0",
        "scrollbar-background": "#000000",
    },
)


def _terminal(name: str, base: str, muted: str) -> Theme:
    """The terminal's own 16 colours."""
    theme = BUILTIN_THEMES[base]
    return replace(theme, name=name, variables={**theme.variables, **_SHARED, "muted": muted})


THEMES: tuple[Theme, ...] = (
    DARK,
    LIGHT,
    HIGH_CONTRAST,
    _terminal("edgellm-16-dark", "ansi-dark", "ansi_bright_black"),
    _terminal("edgellm-16-light", "ansi-light", "ansi_bright_black"),
)
