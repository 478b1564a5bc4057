"""A model and a tokenizer without weights: what the engine says can be written in a test."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from edgellm.block_pool import BlockPool
from edgellm.chat_template.messages import read_traits, shape_messages
from edgellm.detokenize import Detokenizer
from edgellm.engine import Engine
from edgellm.errors import RequestError
from edgellm.generation import Generation
from edgellm.kernels.draw import Draws
from edgellm.limits import Limits
from edgellm.loaded_model import LoadedModel
from edgellm.manager import Manager
from edgellm.sampling import Sampler
from edgellm.scheduler import Scheduler
from edgellm.sequence import BlockCopy, Chunk, Sequence
from edgellm.tokenizer.special import FimTokens
from edgellm.types import ModelInfo, SamplingParams, TokenEvent

EOG, BOS = 256, 257
VOCAB_SIZE = 258
GREEDY = SamplingParams(temperature=0)
LONG = {"context_length": 8192, "num_blocks": 2100}  # sizes for `endless`
Outbox = list[TokenEvent | Exception]


class ByteTokenizer:
    """One token per byte."""

    model = "none"
    eog_ids = frozenset({EOG})
    bos_id, eos_id = BOS, EOG
    add_bos = True
    vocab_size = VOCAB_SIZE
    space_prefix = False
    bos_text, eos_text = "<bos>", "<eos>"
    fim = FimTokens(prefix=1, suffix=2, middle=3, repository=4, file_separator=5)

    def encode(
        self,
        text: str,
        add_special: bool = True,
        parse_special: bool = True,
        continues: bool = False,
    ) -> list[int]:
        try:
            return [BOS] * add_special + list(text.encode())
        except UnicodeEncodeError as error:
            raise RequestError(f"not UTF-8: {error}", "prompt") from None

    def encode_prompt(self, text: str) -> list[int]:
        return self.encode(text)

    def decode(self, ids: list[int], skip_special: bool = False) -> str:
        return b"".join(self.token_bytes(i) for i in ids).decode(errors="replace")

    def token_bytes(self, token_id: int) -> bytes:
        if not 0 <= token_id < VOCAB_SIZE:
            raise RequestError(f"token id {token_id} is not in the vocabulary", "token_ids")
        return bytes([token_id]) if token_id < 256 else b"<special>"

    def is_control(self, token_id: int) -> bool:
        return token_id >= 256


def says(text: str) -> Callable[[list[int], int], npt.NDArray[np.float32]]:
    """Logits that make greedy answers `text` and then the end, whatever the prompt."""
    answer = [*text.encode(), EOG]

    def logits(tokens: list[int], num_prompt_tokens: int) -> npt.NDArray[np.float32]:
        row = np.zeros(VOCAB_SIZE, np.float32)
        row[answer[min(max(0, len(tokens) - num_prompt_tokens), len(answer) - 1)]] = 9.0
        return row

    return logits


def endless(delay: float) -> "MockModel":
    """A model, to be made with LONG, that goes on until it is stopped: for minutes."""
    return MockModel(says("x" * 9000), delay)


def noise(tokens: list[int], num_prompt_tokens: int) -> npt.NDArray[np.float32]:
    """Logits that depend on the last two tokens and the position; the end never wins."""
    row = np.random.default_rng([len(tokens), *tokens[-2:]]).normal(size=VOCAB_SIZE) * 3
    row[[EOG, BOS]] = -99.0
    return row.astype(np.float32)


class MockStore:
    """Blocks of one byte that store nothing."""

    def copy(self, group: int | None, source: int, target: int) -> None:
        pass

    def block_bytes(self, group: int | None) -> int:
        return 1

    def read(self, group: int | None, block: int) -> bytes:
        return b"x"

    def write(self, group: int | None, block: int, data: bytes) -> None:
        pass


class MockModel:
    """A runner whose logits come from a function of the tokens so far.

    delay: seconds that a step takes. can_draw: whether it takes the most likely token by itself
    where it is asked to. error: raised by each step while it is set.
    """

    def __init__(
        self,
        logits: Callable[[list[int], int], npt.NDArray[np.float32]],
        delay: float = 0.0,
        can_draw: bool = False,
    ) -> None:
        self.can_draw = can_draw
        self.store = MockStore()
        self.logits = logits
        self.delay = delay
        self.error: Exception | None = None
        self.batches: list[list[tuple[int, int]]] = []  # (seq_id, count) of every step
        self.is_closed = False

    def copy(self, copies: Iterable[BlockCopy]) -> None:
        pass

    def pack(self, chunks: list[Chunk]) -> list[Chunk]:
        return chunks

    def run(self, batch: list[Chunk]) -> dict[str, npt.NDArray[np.float32]]:
        time.sleep(self.delay)
        if self.error is not None:
            raise self.error
        self.batches.append([(chunk.sequence.seq_id, chunk.count) for chunk in batch])
        rows = []
        for chunk in batch:
            sequence = chunk.sequence
            end = sequence.num_computed_tokens + chunk.count
            first = {"none": end, "last": end - 1, "all": end - chunk.count}[chunk.logits]
            for position in range(first, end):
                tokens = sequence.token_ids[: position + 1]
                rows.append(self.logits(tokens, sequence.num_prompt_tokens))
        hidden = [
            (1.0, token, position)
            for chunk in batch
            for position, token in enumerate(chunk.sequence.token_ids)
            if chunk.sequence.num_computed_tokens <= position
            and position < chunk.sequence.num_computed_tokens + chunk.count
        ]
        return {
            "logits": np.array(rows, np.float32).reshape(-1, VOCAB_SIZE),
            "hidden": np.array(hidden, np.float32).reshape(-1, 3),
        }

    def draw(self, batch: list[Chunk], draws: Draws) -> list[list[int]]:
        time.sleep(self.delay * draws.steps)
        if self.error is not None:
            raise self.error
        drawn = []
        for chunk in batch:
            sequence = chunk.sequence
            tokens = list(sequence.token_ids)
            for _ in range(draws.steps):
                row = self.logits(tokens, sequence.num_prompt_tokens)
                tokens.append(int(row.argmax()) if np.isfinite(row).all() else -1)
            drawn.append(tokens[-draws.steps :])
        self.batches.append([(chunk.sequence.seq_id, draws.steps) for chunk in batch])
        return drawn

    def close(self) -> None:
        self.is_closed = True


def make_engine(
    model: MockModel,
    context_length: int = 64,
    num_blocks: int = 64,
    max_num_seqs: int = 4,
    token_budget: int = 8,
) -> Engine:
    limits = Limits(context_length, max_num_seqs, 4, token_budget, 3, (None,))
    return Engine(model, Scheduler((BlockPool(num_blocks),), limits))  # type: ignore[arg-type]


class MockTemplate:
    """Says who speaks."""

    is_default = False
    variants: Mapping[str, str] = {}

    def __init__(self, source: str = "{{ messages }}") -> None:
        self.source = source

    def close(self) -> None:
        pass

    def render(
        self,
        messages: list[dict[str, object]],
        tools: object = None,
        add_generation_prompt: bool = True,
        **variables: object,
    ) -> str:
        shaped = shape_messages(messages, read_traits(""))
        said = "".join(f"{message['role']}:{message['content']}\n" for message in shaped)
        return said + "assistant:" * add_generation_prompt


class MockFile:
    """Stands for a model file."""

    parts = ()
    is_closed = False
    tensors: Mapping[str, object] = {}
    num_bytes = 0

    def integer(self, key: str) -> int | None:
        return None

    def close(self) -> None:
        self.is_closed = True


def make_model(
    model: MockModel,
    name: str = "mock",
    context_length: int = 64,
    size: int = 0,
    source: str = "{{ messages }}",
    **sizes: int,
) -> LoadedModel:
    """A model ready to run. size: bytes it says it takes. source: a text with the markers of a
    template. sizes: others of make_engine."""
    info = ModelInfo(name, f"{name}.gguf", "mock", "mock", context_length, VOCAB_SIZE, size)
    tokenizer, file, template = ByteTokenizer(), MockFile(), MockTemplate(source)
    engine = make_engine(model, context_length, **sizes)
    loaded = LoadedModel(file, tokenizer, engine, info, print)  # type: ignore[arg-type]
    loaded._template = template  # type: ignore[assignment]
    return loaded


def make_manager(
    model: MockModel,
    name: str = "mock",
    manager: Manager | None = None,
    source: str = "{{ messages }}",
    **sizes: int,
) -> Manager:
    """A manager with this model loaded and one engine thread. The rest are make_model's."""
    manager = manager or Manager()
    manager.add(make_model(model, name, source=source, **sizes))
    return manager


def generation(
    prompt: bytes = b"hello",
    params: SamplingParams = GREEDY,
    index: int = 0,
    request_id: str = "r",
    emit: Callable[[TokenEvent | Exception], None] | None = None,
    context_length: int = 64,
) -> tuple[Generation, Outbox]:
    """An answer to be, and the events that it will emit."""
    room = context_length - len(prompt)
    outbox: Outbox = []
    tokenizer: Any = ByteTokenizer()
    made = Generation(
        request_id=request_id,
        sequence=Sequence(list(prompt), len(prompt), params, index),
        tokenizer=tokenizer,
        detokenizer=Detokenizer(tokenizer, params.stop),
        emit=emit or outbox.append,
        sampler=Sampler(params, tokenizer, seed=params.seed or 0, sample_index=index),
        max_tokens=room if params.max_tokens is None else min(room, params.max_tokens),
    )
    return made, outbox
