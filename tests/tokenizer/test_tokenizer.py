"""What all tokenizers share: special tokens, BOS and EOS, errors."""

from pathlib import Path

import pytest

from edgellm.errors import GGUFError, RequestError
from edgellm.tokenizer import FimTokens, Tokenizer, load_tokenizer
from tests.gguf_writer import int32, uint32
from tests.tokenizer.vocabularies import (
    CONTROL,
    NORMAL,
    UNKNOWN,
    USER_DEFINED,
    Keys,
    altered,
    bpe,
    metadata,
    open_with,
    spm,
)

BOS, EOS, USER, PLAIN = range(256, 260)
SPECIAL = [("<bos>", CONTROL), ("<end>", CONTROL), ("<user>", USER_DEFINED), ("<plain>", NORMAL)]


def load(folder: Path, keys: Keys) -> Tokenizer:
    return load_tokenizer(open_with(folder, keys))


def with_special(folder: Path, **more: object) -> Tokenizer:
    ids = {"bos_token_id": BOS, "eos_token_id": EOS}
    return load(folder, bpe((), SPECIAL, **{**ids, **more}))


def test_written_special_tokens(tmp_path: Path) -> None:
    tokenizer = with_special(tmp_path)
    assert tokenizer.encode("a<bos>b<user>") == [0x61, BOS, 0x62, USER]
    spelled = [ord(c) for c in "<bos>"]
    assert tokenizer.encode("<bos><user>", parse_special=False) == [*spelled, USER]
    assert tokenizer.encode("<plain>") == [ord(c) for c in "<plain>"]


def test_added_tokens(tmp_path: Path) -> None:
    tokenizer = with_special(tmp_path, add_bos_token=True, add_eos_token=True)
    assert tokenizer.encode("a") == [BOS, 0x61, EOS]
    assert tokenizer.encode("") == [BOS, EOS]
    assert tokenizer.encode("a", add_special=False) == [0x61]
    assert with_special(tmp_path).encode("a") == [0x61]


def test_vocabularies_are_the_same_when_their_tokens_are(tmp_path: Path) -> None:
    def made(merges: tuple[str, ...], *more: tuple[str, int]) -> Tokenizer:
        return load(tmp_path, bpe(merges, [*more]))

    ours = made(("a b",), ("<end>", CONTROL))
    assert ours.difference(made(("a b",), ("<end>", CONTROL))) is None
    longer = made(("a b",), ("<end>", CONTROL), ("<pad>", CONTROL))
    assert ours.difference(longer) is None and longer.difference(ours) is None
    assert ours.difference(made(("a b",), ("<eos>", CONTROL))) == (
        "id 257 is '<end>' in one and '<eos>' in the other"
    )
    assert "'gpt2'" in str(ours.difference(load(tmp_path, spm({}))))


def test_a_prompt_has_one_bos(tmp_path: Path) -> None:
    tokenizer = with_special(tmp_path, add_bos_token=True, add_eos_token=True)
    assert tokenizer.encode("<bos>a<end>") == [BOS, BOS, 0x61, EOS, EOS]
    for text in ("a", "<bos>a", "a<end>", "<bos>a<end>"):
        assert tokenizer.encode_prompt(text) == [BOS, 0x61, EOS]
    # What the text itself repeats is the text's business.
    assert tokenizer.encode_prompt("<bos><bos>a") == [BOS, BOS, 0x61, EOS]
    assert tokenizer.encode_prompt("") == [BOS, EOS]
    bare = with_special(tmp_path)
    assert bare.encode_prompt("<bos>a") == [BOS, 0x61]
    assert bare.encode_prompt("a") == [0x61]
    assert with_special(tmp_path, add_bos_token=True).encode_prompt("") == [BOS]
    assert with_special(tmp_path, add_eos_token=True).encode_prompt("") == [EOS]


def test_a_pair_has_the_ends_that_a_text_has(tmp_path: Path) -> None:
    for keys, ids in (
        ({}, [0x61, 0x62]),
        ({"add_bos_token": True}, [BOS, 0x61, 0x62]),
        ({"add_eos_token": True}, [0x61, EOS, 0x62, EOS]),
    ):
        assert with_special(tmp_path, **keys).encode_pair("a", "b") == (ids, None)


def test_decoding(tmp_path: Path) -> None:
    tokenizer = with_special(tmp_path)
    ids = [BOS, 0x61, USER, PLAIN]
    assert tokenizer.decode(ids) == "<bos>a<user><plain>"
    assert tokenizer.decode(ids, skip_special=True) == "a<user><plain>"
    assert [tokenizer.is_control(i) for i in ids] == [True, False, False, False]
    assert tokenizer.token_bytes(BOS) == b"<bos>"
    assert tokenizer.decode([0xC3]) == "\ufffd"
    assert tokenizer.decode([]) == ""
    assert (tokenizer.bos_text, tokenizer.eos_text) == ("<bos>", "<end>")


@pytest.mark.parametrize("token_id", [-1, 260])
def test_ids_outside_the_vocabulary(tmp_path: Path, token_id: int) -> None:
    tokenizer = with_special(tmp_path)
    for call in (tokenizer.token_bytes, tokenizer.is_control, lambda i: tokenizer.decode([i])):
        with pytest.raises(RequestError, match=rf"{token_id} is not.*0 to 259"):
            call(token_id)


def test_lone_surrogates(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="lone surrogate.*character 2") as caught:
        with_special(tmp_path).encode("ab\ud800c")
    assert caught.value.field == "prompt"


def test_ids_by_key(tmp_path: Path) -> None:
    names = "bos eos eot unknown seperator padding fim_pre fim_suf fim_mid fim_pad fim_rep fim_sep"
    keys = {f"{name}_token_id": uint32(i) for i, name in enumerate(names.split(), 10)}
    found = load(tmp_path, altered(bpe(), **keys))
    assert (found.bos_id, found.eos_id, found.eot_id) == (10, 11, 12)
    assert (found.unk_id, found.sep_id, found.pad_id) == (13, 14, 15)
    assert found.fim == FimTokens(16, 17, 18, 19, 20, 21)
    assert found.eog_ids == {11, 12, 19, 20, 21}


def test_old_keys_of_fill_in_the_middle(tmp_path: Path) -> None:
    found = load(tmp_path, bpe(prefix_token_id=1, suffix_token_id=2, middle_token_id=3))
    assert found.fim == FimTokens(1, 2, 3)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"), FimTokens(256, 257, 258)),
        (("<fim_prefix>", "<fim_suffix>", "<fim_middle>"), FimTokens(256, 257, 258)),
        (("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"), FimTokens(256, 257, 258)),
        (("▁<PRE>", "▁<SUF>", "▁<MID>"), FimTokens(256, 257, 258)),
        (
            ("<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"),
            FimTokens(pad=256, repository=257, file_separator=258),
        ),
        (("[PAD]", "<reponame>", "<other>"), FimTokens(pad=256, repository=257)),
    ],
)
def test_fill_in_the_middle_by_text(
    tmp_path: Path, texts: tuple[str, ...], expected: FimTokens
) -> None:
    found = load(tmp_path, bpe((), [(text, NORMAL) for text in texts]))
    assert found.fim == expected
    # What was found by its text is markup, whatever the file says.
    assert found.encode(texts[0]) == [256]
    assert found.is_control(256)


@pytest.mark.parametrize(
    ("texts", "ends"),
    [
        (("<|im_end|>", "<|im_start|>", "<|endoftext|>"), (0, 2)),
        (("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"), (0, 1, 2)),
        (("<end_of_turn>", "<eos>", "</s>"), (0, 1, 2)),
        (("[EOT]", "[EOS]", "[e~["), (0, 1, 2)),
        (("<|end|>", "<|return|>", "<other>"), (0, 1)),
        (("<|end|>", "<|return|>", "<|call|>"), (1, 2)),
        (("<|end|>", "<|flush|>", "<|calls|>"), (1, 2)),
        (("</s>", "<|tool_response>", "<turn|>"), (1, 2)),
    ],
)
def test_end_of_generation_by_text(
    tmp_path: Path, texts: tuple[str, ...], ends: tuple[int, ...]
) -> None:
    keys = bpe((), [(text, NORMAL) for text in texts])
    found = load(tmp_path, keys)
    eos = 11  # of a gpt2 vocabulary that names none
    assert found.eog_ids == {eos, *(256 + i for i in ends)}
    assert all(found.is_control(256 + i) for i in ends)


def test_end_of_turn_prefers_the_chat_token(tmp_path: Path) -> None:
    keys = bpe((), [("<|endoftext|>", CONTROL), ("<|im_end|>", CONTROL)])
    assert load(tmp_path, keys).eot_id == 257


def test_harmony_markup_is_text(tmp_path: Path) -> None:
    texts = ("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>")
    tokenizer = load(tmp_path, bpe((), [(text, CONTROL) for text in texts]))
    assert tokenizer.decode([256, 257], skip_special=True) == "<|channel|><|message|>"
    assert tokenizer.encode("<|start|>", parse_special=False) == [258]


@pytest.mark.parametrize("value", [uint32(260), uint32(2**32 - 1), int32(-1)])
def test_ids_that_are_no_tokens_are_ignored_with_a_note(tmp_path: Path, value: object) -> None:
    tokenizer = with_special(tmp_path, padding_token_id=value, bos_token_id=value)
    assert tokenizer.pad_id is None
    assert tokenizer.bos_id == 11
    assert len(tokenizer.notes) == 2
    assert "260 tokens: it is ignored" in tokenizer.notes[0]


def test_defaults_by_rule(tmp_path: Path) -> None:
    llama = load(tmp_path, altered(bpe(), pre="llama-bpe"))
    assert (llama.add_bos, llama.bos_id) == (True, 11)
    assert load(tmp_path, altered(bpe(), pre="glm4")).bos_id is None
    assert load(tmp_path, altered(bpe(), pre="roberta-bpe")).add_sep
    without = load(tmp_path, altered(bpe(), pre="llama-bpe", add_bos_token=False))
    assert not without.add_bos
    with pytest.raises(GGUFError, match="adds a bos token"):
        load(tmp_path, altered(bpe(), pre="glm4", add_bos_token=True))


def test_white_space_goes_with_some_tokens(tmp_path: Path) -> None:
    special = [("<|user|>", CONTROL), ("<|endoftext|>", CONTROL)]
    keys = spm({"▁": 0.0, "a": 0.0}, special, add_bos_token=False, add_space_prefix=False)
    text = "<|user|> \na<|endoftext|> a"
    plain = load(tmp_path, keys)
    assert plain.decode(plain.encode(text)) == text
    phi = load(tmp_path, {**keys, "general.name": "Phi-3 mini"})
    assert phi.decode(phi.encode(text)) == "<|user|>a<|endoftext|> a"
    masked = bpe((), [("<mask>", CONTROL)], pre="jina-v2-code", sep_token_id=1)
    jina = load(tmp_path, masked)
    assert jina.decode(jina.encode("a \n<mask> a")) == "a<mask> a"


def test_no_vocabulary(tmp_path: Path) -> None:
    for model in ("none", "no_vocab", "test"):
        keys = metadata(model, ["a"], [UNKNOWN]) | {"llama.vocab_size": 100}
        tokenizer = load(tmp_path, keys)
        assert (tokenizer.model, tokenizer.vocab_size) == (model, 100)
        assert tokenizer.decode([0, 99]) == ""
        assert (tokenizer.bos_id, tokenizer.eog_ids) == (None, frozenset())
        with pytest.raises(RequestError, match="no vocabulary"):
            tokenizer.encode("a")
    assert load(tmp_path, metadata("none", ["a", "b"], [1, 1])).vocab_size == 2
