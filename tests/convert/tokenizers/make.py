"""Makes the folders beside it with `tokenizers`, `transformers` and `sentencepiece`:

    python -m tests.convert.tokenizers.make

Holds no tests.
"""

import json
import shutil
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path

import sentencepiece
from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from edgellm.tokenizer.byte_level import decode_bytes
from tests.convert.tokenizers import FOLDER, TEXTS

CORPUS = [
    "the quick brown fox jumps over the lazy dog and runs on and on over the hills",
    "running runners run the long run; the runner jumped over hello world hello there",
    "It's a small world, isn't it? They'll say it's 1 2 3 4 5 and o'clock",
    "caf\u00e9 spaces tabs leading trailing unknown snow brown crown town down",
] * 5


def _save(name: str, tokenizer: Tokenizer, **settings: object) -> Path:
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    content = json.loads(tokenizer.to_str())
    (folder / "tokenizer.json").write_text(json.dumps(content, separators=(",", ":")) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps(settings) + "\n")
    expected = [tokenizer.encode(text).ids for text in TEXTS]
    size = tokenizer.get_vocab_size()
    (folder / "expected.json").write_text(json.dumps({"size": size, "ids": expected}) + "\n")
    return folder


def wordpiece() -> None:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=140, special_tokens=special)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {"unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "pad": "[PAD]", "mask": "[MASK]"}
    _save("wordpiece", tokenizer, **{f"{role}_token": text for role, text in names.items()})


def unigram() -> None:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), " ")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(
        vocab_size=120, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    _save("unigram", tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def byte_level(name: str, split: Callable[[], object], post: object = None, **model: bool) -> None:
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = split()
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=["<s>", "</s>", "<unk>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    if post is not None:
        tokenizer.post_processor = post
    tokenizer.decoder = decoders.ByteLevel()
    settings = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    if post is not None:
        settings |= {"cls_token": "<s>", "sep_token": "</s>"}
    _save(name, tokenizer, **settings)


def sentencepiece_models() -> Iterator[None]:
    """With their own file alone, as older folders have them."""
    corpus = FOLDER / "corpus.txt"
    corpus.write_text("\n".join(CORPUS))
    for kind, more in (
        ("bpe", {"byte_fallback": True, "normalization_rule_name": "identity",
                 "remove_extra_whitespaces": False}),
        ("unigram", {"normalization_rule_name": "identity"}),
    ):  # fmt: skip
        folder = FOLDER / f"sentencepiece-{kind}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        sentencepiece.SentencePieceTrainer.train(
            input=str(corpus),
            model_prefix=str(folder / "tokenizer"),
            model_type=kind,
            vocab_size=340 if kind == "bpe" else 90,
            user_defined_symbols=["<tool>"],
            pad_id=3,
            hard_vocab_limit=False,
            **more,
        )
        (folder / "tokenizer.vocab").unlink()
        processor = sentencepiece.SentencePieceProcessor(str(folder / "tokenizer.model"))
        ids = [processor.encode(text) for text in TEXTS]
        around = ([1], []) if kind == "bpe" else ([], [2])
        expected = [[*around[0], *one, *around[1]] for one in ids]
        size = processor.get_piece_size()
        (folder / "expected.json").write_text(json.dumps({"size": size, "ids": expected}) + "\n")
        yield
    corpus.unlink()


QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEKKEN_SPLIT = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def ranks(split: str) -> dict[bytes, int]:
    """Byte pairs learned from the corpus, as OpenAI's library ranks them."""
    tokenizer = Tokenizer(models.BPE())
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    cut = pre_tokenizers.Split(Regex(split), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([cut, level])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=330, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    vocab = tokenizer.get_vocab()
    return {decode_bytes(text): i for text, i in sorted(vocab.items(), key=lambda item: item[1])}


def tiktoken_files() -> None:
    import tiktoken

    found = ranks(QWEN_SPLIT)
    folder = FOLDER / "tiktoken"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    lines = [b64encode(token).decode() + f" {rank}\n" for token, rank in found.items()]
    (folder / "qwen.tiktoken").write_text("".join(lines))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "QWenTokenizer"}\n')
    encoding = tiktoken.Encoding(
        "qwen", pat_str=QWEN_SPLIT, mergeable_ranks=found, special_tokens={}
    )
    ids = [encoding.encode(text) for text in TEXTS]
    size = len(found) + 208
    (folder / "expected.json").write_text(json.dumps({"size": size, "ids": ids}) + "\n")


def tekken_file() -> None:
    import tiktoken

    found, special = ranks(TEKKEN_SPLIT), 24
    folder = FOLDER / "tekken"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    config = {
        "pattern": TEKKEN_SPLIT,
        "num_vocab_tokens": len(found),
        "default_vocab_size": len(found) - 20 + special,
        "default_num_special_tokens": special,
        "version": "v3",
    }
    vocab = [
        {"rank": i, "token_bytes": b64encode(token).decode(), "token_str": None}
        for token, i in found.items()
    ]
    (folder / "tekken.json").write_text(json.dumps({"config": config, "vocab": vocab}) + "\n")
    cut = {token: rank for token, rank in found.items() if rank < len(found) - 20}
    encoding = tiktoken.Encoding(
        "tekken", pat_str=TEKKEN_SPLIT, mergeable_ranks=cut, special_tokens={}
    )
    ids = [[1, *(special + i for i in encoding.encode(text))] for text in TEXTS]
    size = config["default_vocab_size"]
    (folder / "expected.json").write_text(json.dumps({"size": size, "ids": ids}) + "\n")


if __name__ == "__main__":
    wordpiece()
    unigram()
    byte_level("gpt2", lambda: pre_tokenizers.ByteLevel(add_prefix_space=False))
    byte_level(
        "roberta",
        lambda: pre_tokenizers.ByteLevel(add_prefix_space=False),
        processors.RobertaProcessing(("</s>", 1), ("<s>", 0), add_prefix_space=False),
    )
    byte_level(
        "smollm",
        lambda: pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True),
             pre_tokenizers.ByteLevel(add_prefix_space=False)]
        ),
    )  # fmt: skip
    list(sentencepiece_models())
    tiktoken_files()
    tekken_file()
