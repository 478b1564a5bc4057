"""Tiny tokenizers as they are published, with the ids that their own libraries give. No tests.

Made by `python -m tests.convert.tokenizers.make`: a folder for each, with `expected.json`.
"""

from pathlib import Path

FOLDER = Path(__file__).parent
NAMES = sorted(path.parent.name for path in FOLDER.glob("*/expected.json"))
TEXTS = (
    "The quick brown fox jumps over the lazy dog.",
    "Hello, World! It's 12345 o'clock\n\n  and   spaces\t tabs",
    "caf\u00e9 \u00c9T\u00c9 \u4f60\u597d \u043f\u0440\u0438\u0432\u0435\u0442 \U0001f680 e\u0301",
    "  leading and trailing  ",
    "a",
    "",
    "unknown \u2603 snow; running runner runs",
)
