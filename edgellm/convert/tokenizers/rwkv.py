"""RWKV's vocabulary ("rwkv" in GGUF): a line for each token, its id, its text as Python writes it
and how many bytes it has. Token 0 begins and ends texts.

Source: github.com/BlinkDL/RWKV-LM.
"""

import ast
import re
from pathlib import Path

from edgellm.convert.tokenizers.tokens import Token, Tokens
from edgellm.errors import GGUFError
from edgellm.tokenizer.vocab import TokenType

_NAMES = "rwkv_vocab*.txt"
_LINE = re.compile(r"(\d{1,9}) (b?(?:'.*'|\".*\")) (\d{1,9})")
_MOST = 1 << 24  # bytes of a file
_LONGEST = 1 << 10  # letters of a line


def vocabulary_file(folder: Path) -> Path | None:
    """The folder's file of this kind; None without one."""
    return next(iter(sorted(folder.glob(_NAMES))), None)


def read(path: Path) -> Tokens:
    """GGUFError names the line that is none."""
    if path.stat().st_size > _MOST:
        raise GGUFError(f"{path}: is larger than {_MOST >> 20} MiB")
    try:
        lines = path.read_text("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise GGUFError(f"{path}: cannot be read as text: {error}") from None
    tokens = {0: Token("<s>", TokenType.CONTROL)}
    for number, line in enumerate(lines, 1):
        if line:
            token_id, text = _token(path, number, line)
            if token_id in tokens:
                raise GGUFError(f"{path}: line {number} has token {token_id}, which is there")
            tokens[token_id] = Token(text, TokenType.NORMAL)
    if len(tokens) == 1:
        raise GGUFError(f"{path}: has no tokens")
    return Tokens(
        "rwkv", tokens, {"tokenizer.ggml.bos_token_id": 0, "tokenizer.ggml.eos_token_id": 0}
    )


def _token(path: Path, number: int, line: str) -> tuple[int, str]:
    """Its id, and its bytes with escapes, as GGUF has them."""
    found = _LINE.fullmatch(line.rstrip("\r")) if len(line) <= _LONGEST else None
    try:
        literal = ast.literal_eval(found[2]) if found else None
    except (SyntaxError, ValueError):
        literal = None
    data = literal.encode() if isinstance(literal, str) else literal
    if found is None or not isinstance(data, bytes) or len(data) != int(found[3]):
        raise GGUFError(f"{path}: line {number} is no token: {line[:60]!r}")
    return int(found[1]), repr(data)[2:-1]
