"""Decoders of the kind of GPT."""

from typing import Any

from tests.convert.golden.settings import ALL_HEADS, BASE, HEADS, HIDDEN, LAYERS, TIED, VOCAB

OLDER: dict[str, tuple[str, dict[str, Any]]] = {
    "bloom": (
        "BloomForCausalLM",
        {"vocab_size": VOCAB, "hidden_size": HIDDEN, "n_layer": LAYERS, "n_head": HEADS,
         "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
    ),
    "falcon": (
        "FalconForCausalLM",
        {**ALL_HEADS, **TIED, "num_kv_heads": 2, "new_decoder_architecture": True},
    ),
    "falcon-7b": ("FalconForCausalLM", {**ALL_HEADS, **TIED, "multi_query": True}),
    "gpt2": (
        "GPT2LMHeadModel",
        {"vocab_size": VOCAB, "n_embd": HIDDEN, "n_layer": LAYERS, "n_head": HEADS,
         "n_positions": 64, "bos_token_id": 1, "eos_token_id": 2},
    ),
    "starcoder": (
        "GPTBigCodeForCausalLM",
        {"vocab_size": VOCAB, "n_embd": HIDDEN, "n_layer": LAYERS, "n_head": HEADS,
         "n_positions": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
    ),
    "starcoder-heads": (
        "GPTBigCodeForCausalLM",
        {"vocab_size": VOCAB, "n_embd": HIDDEN, "n_layer": LAYERS, "n_head": HEADS,
         "n_positions": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
         "multi_query": False},
    ),
    "gptneox": ("GPTNeoXForCausalLM", {**ALL_HEADS, "rotary_pct": 0.5}),
    "gptneox-sequential": (
        "GPTNeoXForCausalLM",
        {**ALL_HEADS, "rotary_pct": 0.25, "use_parallel_residual": False},
    ),
    "mpt": (
        "MptForCausalLM",
        {"vocab_size": VOCAB, "d_model": HIDDEN, "n_layers": LAYERS, "n_heads": HEADS,
         "max_seq_len": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
    ),
    "phi2": ("PhiForCausalLM", {**BASE, "partial_rotary_factor": 0.5}),
    "stablelm": ("StableLmForCausalLM", {**BASE, "use_qkv_bias": True}),
    "stablelm2": (
        "StableLmForCausalLM",
        {**BASE, "qk_layernorm": True, "use_parallel_residual": True},
    ),
    "stablelm-whole": ("StableLmForCausalLM", {**BASE, "partial_rotary_factor": 1.0}),
    "starcoder2": ("Starcoder2ForCausalLM", {**BASE, "sliding_window": 4}),
}  # fmt: skip
