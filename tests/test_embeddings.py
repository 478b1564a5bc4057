"""Embeddings from text to numbers, through the engine: encoders and decoders, company, limits."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import edgellm
from edgellm.errors import ContextOverflow, RequestError
from edgellm.llm import Model
from tests.gguf_writer import INT32, Tensor, array
from tests.models.recipes.parts import CONTEXT, HIDDEN, VOCAB
from tests.models.tiny import random_tensor, write_tiny
from tests.tokenizer.vocabularies import CONTROL, NORMAL, UNKNOWN

LETTERS = "abcdefghijklmnop"
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *("\u2581" + c for c in LETTERS), *LETTERS]
TOKENS += [f"[unused{i}]" for i in range(VOCAB - len(TOKENS))]
TEXTS = ["abc", "p o n", "a" * 90, "", "a b c d e f g h", "abc"]
POOLINGS = ("mean", "cls", "last", "none")


def vocabulary(keys: dict[str, object]) -> None:
    kinds = [CONTROL, UNKNOWN, CONTROL, CONTROL] + [NORMAL] * (VOCAB - 4)
    own = {
        "model": "bert",
        "tokens": TOKENS,
        "token_type": array(INT32, kinds),
        "cls_token_id": 2,
        "seperator_token_id": 3,
        "unknown_token_id": 1,
    }
    keys.update({f"tokenizer.ggml.{key}": value for key, value in own.items()})


def reranker(keys: dict[str, object], tensors: list[Tensor]) -> None:
    vocabulary(keys)
    keys["bert.pooling_type"] = 4
    tensors += [random_tensor("cls.weight", (HIDDEN, HIDDEN)), random_tensor("cls.bias", (HIDDEN,))]
    tensors += [random_tensor("cls.output.weight", (HIDDEN, 1))]


@pytest.fixture(scope="module", params=["bert", "modern-bert", "llama"])
def model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Model]:
    folder = tmp_path_factory.mktemp("embed")
    path = write_tiny(folder, request.param, lambda keys, _: vocabulary(keys))
    with edgellm.load(path, backend="cpu", max_num_seqs=3) as model:
        yield model


@pytest.mark.parametrize("pooling", POOLINGS)
def test_company_makes_no_difference(model: Model, pooling: edgellm.types.Pooling) -> None:
    together = model.embed(TEXTS, pooling)
    alone = np.concatenate([model.embed([text], pooling) for text in TEXTS])
    np.testing.assert_array_equal(together.view(np.uint32), alone.view(np.uint32))
    if pooling == "none":
        assert len(together) == sum(len(model.tokenize(text)) for text in TEXTS)
    else:
        assert together.shape == (len(TEXTS), HIDDEN)
        np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, rtol=1e-6)
        if pooling != "cls" or not model.info.generates:  # the first token sees itself alone there
            assert np.abs(together[0] - together[1]).max() > 1e-2


def test_ids_are_taken_as_they_are(model: Model) -> None:
    ids = [model.tokenize(text) for text in TEXTS]
    np.testing.assert_array_equal(model.embed(ids), model.embed(TEXTS))
    assert model.embed([]).shape == (0, 0)


def test_what_cannot_be_embedded(model: Model) -> None:
    with pytest.raises(ContextOverflow):
        model.embed(["a " * CONTEXT])
    with pytest.raises(RequestError, match="outside the vocabulary"):
        model.embed([[1, VOCAB]])
    with pytest.raises(RequestError, match="text 2 of 3 is empty"):
        model.embed(["a", [], "b"])
    with pytest.raises(RequestError, match="no classifier"):
        model.rerank("a", ["b"])
    with pytest.raises(RequestError, match="expected one of none, mean"):
        model.embed(["a"], "middle")  # type: ignore[arg-type]
    assert model.embed(["a " * (CONTEXT - 2)]).shape == (1, HIDDEN)  # the engine lives on


def test_an_encoder_generates_nothing(model: Model) -> None:
    if model.info.generates:
        return
    with pytest.raises(RequestError, match="makes embeddings and no text"):
        model.complete("abc")
    with pytest.raises(RequestError, match="makes embeddings and no text"):
        model.logits([1, 2])


def test_more_texts_than_a_step_holds(model: Model) -> None:
    many = [LETTERS[i % 16] * (i % 7 + 1) + " " + "b " * (i * 5 % 100) for i in range(40)]
    np.testing.assert_array_equal(model.embed(many)[7], model.embed([many[7]])[0])


def test_a_reranker_scores_pairs(tmp_path: Path) -> None:
    with edgellm.load(write_tiny(tmp_path, "bert", reranker), backend="cpu") as model:
        assert model.info.pooling == "rank"
        documents = ["a b", "c", "a b"]
        scores = model.rerank("a", documents)
        assert scores.shape == (3,) and scores[0] == scores[2] != scores[1]
        pair = [2, *model.tokenize("a", False), 3, *model.tokenize("c", False), 3]
        untold = model.embed([pair])
        assert untold.tolist() != [[scores[1]]]  # the second text's tokens are of another type
        np.testing.assert_allclose(np.linalg.norm(model.embed(["a"], "mean")), 1, rtol=1e-6)


def test_a_reranker_may_have_one_type_of_tokens(tmp_path: Path) -> None:
    def edit(keys: dict[str, object], tensors: list[Tensor]) -> None:
        reranker(keys, tensors)
        tensors[:] = [tensor for tensor in tensors if tensor[0] != "token_types.weight"]
        tensors.append(random_tensor("token_types.weight", (HIDDEN,)))

    with edgellm.load(write_tiny(tmp_path, "bert", edit), backend="cpu") as model:
        pair = [2, *model.tokenize("a", False), 3, *model.tokenize("c", False), 3]
        assert model.embed([pair])[0].tolist() == model.rerank("a", ["c"]).tolist()


def test_a_template_for_pairs_is_filled_once(tmp_path: Path) -> None:
    def edit(keys: dict[str, object], tensors: list[Tensor]) -> None:
        reranker(keys, tensors)
        keys["tokenizer.chat_template.rerank"] = "a {query} b {document} c"

    with edgellm.load(write_tiny(tmp_path, "bert", edit), backend="cpu") as model:
        got = model.rerank("{document}", ["d"])
        text = model.tokenize("a {document} b d c", add_special=False)
        assert model.embed([text])[0, 0] == got[0]
