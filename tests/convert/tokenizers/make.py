"""Makes the folders beside it with `tokenizers`, `transformers` and `sentencepiece`:

    python -m tests.convert.tokenizers.make

Holds no tests.
"""

import json
import shutil
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
