"""A model with its text: an engine that is ready to step, tokenizer and chat template.

Knows nothing of other models, requests or callers.
"""

import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from edgellm.adapter_files import AdapterFiles, open_adapters
from edgellm.advice import advised_by
from edgellm.backend_kinds import Note
from edgellm.backends import Backends
from edgellm.chat_template import ChatTemplate, load_chat_template
from edgellm.constraints import Words
from edgellm.dialects import MARKS
from edgellm.drafters import Drafter, DraftModel, PromptLookup
from edgellm.engine import Engine
from edgellm.errors import ContextOverflow, RequestError
from edgellm.fim import fill
from edgellm.gguf_loader import GGUFFile, open_gguf
from edgellm.holes import FimPrompt, Hole
from edgellm.linux import give_back_freed_memory
from edgellm.load_plan import context_length, usable_memory
from edgellm.models import PooledHead, read_config, read_pooled_head
from edgellm.ready import check_options, make_ready
from edgellm.sampling import Find, find_best
from edgellm.sessions import Key, fingerprint, session_key
from edgellm.tokenizer import Tokenizer, load_tokenizer
from edgellm.types import LoadOptions, Message, Messages, ModelDetails, ModelInfo

_LONG = 1 << 20  # characters; shorter prompts are not worth a look before they are read


class LoadedModel:
    """One open model. `engine` is to be stepped by the engine's thread alone.

    note: is told what users should know of how the file is read. numerics: what the bits in the
    cache depend on beside the file. draft_bytes: what a model that guesses for it takes. head: what
    pooled rows become. find: the best logits of a row, for samplers in the engine's thread.
    """

    def __init__(
        self,
        file: GGUFFile,
        tokenizer: Tokenizer,
        engine: Engine,
        info: ModelInfo,
        note: Note,
        adapters: AdapterFiles | None = None,
        numerics: Mapping[str, str | int] | None = None,
        draft_bytes: int = 0,
        head: PooledHead | None = None,
        find: Find = find_best,
    ) -> None:
        self.tokenizer = tokenizer
        self.engine = engine
        self.info = info
        self._file = file
        self._adapters = adapters
        self._note = note
        self._numerics = numerics or {}
        self._draft_bytes = draft_bytes
        self.head = head or PooledHead()
        self.find = find
        self._template: ChatTemplate | None = None
        self._words: Words | None = None
        self._making_words = threading.Lock()

    @cached_property
    def session_key(self) -> Key:
        """What a session of this model can be restored with; reads pieces of the file once."""
        adapters = self.info.adapters
        return session_key(
            self._file.parts,
            adapters=fingerprint([Path(adapter.path) for adapter in adapters]),
            scales=" ".join(str(adapter.scale) for adapter in adapters),
            **self._numerics,
        )

    @property
    def chat_template(self) -> ChatTemplate:
        """Read when it is first needed."""
        if self._template is None:
            bos, eos = self.tokenizer.bos_text, self.tokenizer.eos_text
            self._template = load_chat_template(self._file, bos, eos)
            if self._template.is_default:
                self._note(
                    f"{self.info.name} brings no chat template: {self._template.origin} is used"
                )
        return self._template

    @property
    def rerank_template(self) -> str | None:
        """How the file wants a {query} and a {document} put together, if it says so."""
        return self._file.string("tokenizer.chat_template.rerank")

    @property
    def words(self) -> Words:
        """The vocabulary for constraints; made once, when one is first asked for."""
        with self._making_words:
            if self._words is None:
                self._words = Words(self.tokenizer)
            return self._words

    def chat_ids(
        self, messages: Messages, tools: list[Message] | None = None, **variables: Any
    ) -> list[int]:
        """Messages as token ids that end where an answer begins, with exactly one BOS.

        variables: more that the template may read.
        """
        prompt = self.chat_template.render(messages, tools=tools, **variables)
        self.refuse_long(prompt)
        return self.tokenizer.encode_prompt(prompt)

    def refuse_long(self, text: str) -> None:
        """ContextOverflow for a prompt that cannot fit, whatever its tokens: to make them would
        take long, and much memory."""
        if len(text) > _LONG:
            least = len(text) // self._longest_token
            if least > self.info.context_length:
                raise ContextOverflow(least, self.info.context_length, at_least=True)

    def beginning(self, text: str) -> str:
        """All of a text that the context could have room for, and more, for one that is cut."""
        if len(text) <= _LONG:
            return text
        return text[: 2 * self.info.context_length * self._longest_token]

    @cached_property
    def _longest_token(self) -> int:
        """Bytes, and so at least as many as characters."""
        ids = range(self.info.vocab_size)
        return max(len(self.tokenizer.token_bytes(token_id)) for token_id in ids)

    def fim_prompt(self, hole: Hole, max_tokens: int | None, suffix_limit: int | None) -> FimPrompt:
        """The prompt that fills a hole; `fim.fill` of this model."""
        return fill(self.tokenizer, self.info.context_length, hole, max_tokens, suffix_limit)

    @property
    def num_bytes(self) -> int:
        """What weights and cache may take of memory, those of its draft model included."""
        return self._file.num_bytes + self.info.kv_cache_bytes + self._draft_bytes

    @cached_property
    def _control_marks(self) -> Mapping[str, int]:
        """The markers of dialects that are control tokens here."""
        found = {}
        for mark in MARKS:
            ids = self.tokenizer.encode(mark, add_special=False)
            if len(ids) == 1 and self.tokenizer.is_control(ids[0]):
                found[mark] = ids[0]
        return found

    @cached_property
    def details(self) -> ModelDetails:
        """What front ends report of the model."""
        tokenizer, architecture = self.tokenizer, self.info.architecture
        weights: Counter[str] = Counter()
        for tensor in self._file.tensors.values():
            weights[tensor.type_name] += tensor.num_elements
        return ModelDetails(
            name=self.info.name,
            architecture=architecture,
            chat_template=self.chat_template.source,
            bos_text=tokenizer.bos_text,
            eos_text=tokenizer.eos_text,
            bos_id=tokenizer.bos_id,
            add_bos=tokenizer.add_bos,
            eog_ids=tuple(sorted(tokenizer.eog_ids)),
            fim={role: i for role, i in asdict(tokenizer.fim).items() if i is not None},
            parameters=weights.total(),
            size=self._file.num_bytes,
            quantization=max(weights, key=weights.__getitem__, default="unknown"),
            trained_context=self._file.integer(f"{architecture}.context_length"),
            hidden_size=self._file.integer(f"{architecture}.embedding_length"),
            tool_template=self.chat_template.variants.get("tool_use"),
            tokenizer=tokenizer.model,
            control_marks=self._control_marks,
        )

    def close(self) -> None:
        """Closes the file and the template. The engine must be closed already."""
        if self._template is not None:
            self._template.close()
        if self._adapters is not None:
            self._adapters.close()
        self._file.close()


def load_model(
    path: Path,
    name: str,
    options: LoadOptions,
    sampling: Mapping[str, float],
    backends: Backends,
    note: Note,
    draft: Path | None = None,
) -> LoadedModel:
    """Opens the file and binds it to one of the backends.

    draft: a smaller model's file, which guesses. GGUFError for a file, RequestError for an option,
    BackendError for what cannot run here.
    """
    check_options(options)  # before the file is read
    with ExitStack() as opened:
        file = opened.enter_context(open_gguf(path))
        config = read_config(file)
        adapters = open_adapters(options.adapters, config.architecture)
        opened.callback(adapters.close)
        tokenizer = load_tokenizer(file)
        give_back_freed_memory()  # before what stays is put between what was made on the way
        head = read_pooled_head(file, config)
        drafters: tuple[Drafter, ...] = (PromptLookup(),)
        draft_bytes = 0
        if draft is not None:
            context = context_length(options, config)
            drafter, draft_bytes = load_draft(draft, tokenizer, context, options, backends)
            opened.callback(drafter.close)
            drafters = (*drafters, drafter)
            left = max(1, usable_memory(options.memory_limit) - draft_bytes)
            options = replace(options, memory_limit=left)
        advice = advised_by(file, lambda text: note(f"{name}: {text}"))
        ready = make_ready(file, config, options, backends, adapters.adapters, drafters, tokenizer)
        file.give_back_metadata()  # the tokenizer has its own
        opened.pop_all()  # the model closes them
    for text in tokenizer.notes:
        note(f"{name}: {text}")
    info = ModelInfo(
        name=name,
        path=str(path),
        architecture=config.architecture,
        backend=ready.backend,
        context_length=ready.limits.context_length,
        vocab_size=ready.program.vocab_size,
        kv_cache_bytes=ready.kv_cache_bytes,
        sampling={**advice, **sampling},
        max_num_seqs=ready.limits.max_num_seqs,
        adapters=adapters.infos,
        generates="logits" in ready.program.outputs,
        pooling=head.pooling,
    )
    return LoadedModel(
        file,
        tokenizer,
        ready.engine,
        info,
        note,
        adapters=adapters,
        numerics=ready.numerics,
        draft_bytes=draft_bytes,
        head=head,
        find=ready.find,
    )


def load_draft(
    path: Path, tokenizer: Tokenizer, context: int, options: LoadOptions, backends: Backends
) -> tuple[DraftModel, int]:
    """A model that guesses for one with this tokenizer and context, and the bytes it takes.

    RequestError when its tokens are others.
    """
    with ExitStack() as opened:
        file = opened.enter_context(open_gguf(path))
        vocabulary = load_tokenizer(file)
        difference = tokenizer.difference(vocabulary)
        if difference is not None:
            raise RequestError(
                f"{path.name} cannot guess for this model, their tokens differ: {difference}",
                "draft",
            )
        config = read_config(file)
        context = min(context, config.context_length)
        own = replace(options, context_length=context, kv_cache_memory=None)
        ready = make_ready(file, config, own, backends)
        opened.pop_all()  # the drafter closes it
    known = min(tokenizer.vocab_size, vocabulary.vocab_size)
    drafter = DraftModel(ready.engine, tokenizer, known, file.close)
    return drafter, file.num_bytes + ready.kv_cache_bytes
