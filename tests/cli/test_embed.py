"""`edgellm embed` on a tiny encoder."""

import json

import numpy as np
import pytest

from edgellm import cli
from tests.models.recipes.parts import HIDDEN
from tests.models.tiny import write_tiny
from tests.test_embeddings import vocabulary


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("encoder")
    return str(write_tiny(folder, "bert", lambda keys, _: vocabulary(keys)))


def numbers(capsys: pytest.CaptureFixture[str], *words: str) -> np.ndarray:
    assert cli.main(["embed", *words, "--backend", "cpu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    return np.array([[float(word) for word in line.split()] for line in lines], np.float32)


def test_a_line_of_numbers_for_each_text(encoder: str, capsys: pytest.CaptureFixture[str]) -> None:
    both = numbers(capsys, encoder, "ab c\nd", "--lines")
    assert both.shape == (2, HIDDEN)
    np.testing.assert_array_equal(numbers(capsys, encoder, "d"), both[1:])
    assert numbers(capsys, encoder, "a b", "--pooling", "none").shape == (4, HIDDEN)


def test_a_line_ends_at_its_newline(encoder: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = "a\u2028b\r\nc\x0cd\n"
    assert numbers(capsys, encoder, text, "--lines").shape == (2, HIDDEN)


def test_json(encoder: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = numbers(capsys, encoder, "ab")
    assert cli.main(["embed", encoder, "ab", "--json", "--backend", "cpu"]) == 0
    report = json.loads(capsys.readouterr().out)
    (embedding,) = report["embeddings"]
    assert report["model"] == "bert-None" and embedding["num_tokens"] == 4
    np.testing.assert_array_equal(np.array(embedding["rows"], np.float32), rows)


def test_what_is_refused(encoder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["embed", encoder, "ab", "--pooling", "rank"]) == 2
    assert "no classifier" in capsys.readouterr().err
    assert cli.main(["run", encoder, "ab", "--raw"]) == 2
    assert "makes embeddings and no text" in capsys.readouterr().err
