"""`edgellm tokenize`: text to token ids, one line. Loads the tokenizer alone, no weights."""

import argparse

from edgellm.cli import options
from edgellm.cli.output import print_json
from edgellm.client import find_model
from edgellm.gguf_loader import open_gguf
from edgellm.tokenizer import load_tokenizer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_model(parser)
    options.add_text(parser, "text", "the text")
    parser.add_argument("--no-special", action="store_true", help="add no BOS, EOS or the like")
    parser.add_argument(
        "--no-parse-special", action="store_true", help="take <|im_end|> and the like as plain text"
    )
    parser.add_argument("--count", action="store_true", help="tell only how many tokens there are")
    parser.add_argument(
        "--json", action="store_true", help="report as one JSON object, with ids and pieces"
    )


def run(args: argparse.Namespace) -> int:
    text = options.text(args, "text")
    options.fetch(args.model)
    path, _, _ = find_model(args.model)
    with open_gguf(path) as file:
        tokenizer = load_tokenizer(file)
        ids = tokenizer.encode(
            text, add_special=not args.no_special, parse_special=not args.no_parse_special
        )
        if args.json:
            pieces = [_piece(tokenizer.token_bytes(token)) for token in ids]
            report = {"count": len(ids), "token_ids": ids, "pieces": pieces}
            print_json(report)
        elif args.count:
            print(len(ids))
        else:
            print(*ids)
    return 0


def _piece(raw: bytes) -> str | list[int]:
    """Text, or for a part of a character its bytes, as llama.cpp's server has it."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return list(raw)
