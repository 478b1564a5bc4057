"""The server's counts as Prometheus reads them, under llama.cpp's names. Knows no routes."""

from typing import Literal

from edgellm.server.service import Service

_Row = tuple[str, Literal["counter", "gauge"], str, float]


async def exposition(service: Service) -> bytes:
    """The text format, version 0.0.4."""
    lines = []
    for name, kind, help_text, value in await _rows(service):
        full = f"llamacpp:{name}"
        lines += [f"# HELP {full} {help_text}", f"# TYPE {full} {kind}", f"{full} {value:.10g}"]
    return ("\n".join(lines) + "\n").encode()


async def _rows(service: Service) -> list[_Row]:
    totals, stats = service.totals, (await service.client.stats()).values()
    steps = sum(s.steps for s in stats)
    computed = sum(s.tokens_computed for s in stats)
    blocks = sum(sum(s.blocks) for s in stats)
    free = sum(sum(s.blocks_free) for s in stats)
    generated = totals.generated_tokens
    return [
        (
            "prompt_tokens_total",
            "counter",
            "Prompt tokens computed.",
            totals.prompt_tokens - totals.cached_tokens,
        ),
        (
            "prompt_tokens_cached_total",
            "counter",
            "Prompt tokens found in the cache.",
            totals.cached_tokens,
        ),
        ("prompt_seconds_total", "counter", "Time spent reading prompts.", totals.prompt_seconds),
        ("tokens_predicted_total", "counter", "Tokens written.", generated),
        (
            "tokens_predicted_seconds_total",
            "counter",
            "Time spent writing, summed over answers.",
            totals.decode_seconds,
        ),
        ("n_decode_total", "counter", "Steps of the engine.", steps),
        (
            "n_tokens_max",
            "counter",
            "Tokens of the longest prompt with its answer.",
            totals.longest,
        ),
        (
            "spec_decode_num_draft_tokens_total",
            "counter",
            "Tokens guessed ahead.",
            totals.drafted_tokens,
        ),
        (
            "spec_decode_num_accepted_tokens_total",
            "counter",
            "Tokens guessed rightly.",
            totals.accepted_tokens,
        ),
        ("prompt_tokens_seconds", "gauge", "Prompt tokens per second.", totals.prompt_rate or 0.0),
        (
            "predicted_tokens_seconds",
            "gauge",
            "Tokens written per second of an answer.",
            generated / totals.decode_seconds if totals.decode_seconds else 0.0,
        ),
        (
            "n_busy_slots_per_decode",
            "gauge",
            "Tokens computed per step.",
            computed / steps if steps else 0.0,
        ),
        ("requests_processing", "gauge", "Answers being written.", sum(s.running for s in stats)),
        ("requests_deferred", "gauge", "Answers that wait.", sum(s.waiting for s in stats)),
        ("requests_total", "counter", "Requests begun.", totals.requests),
        ("requests_refused_total", "counter", "Requests told to come again.", totals.refused),
        ("requests_aborted_total", "counter", "Answers left before their end.", totals.aborted),
        (
            "kv_cache_usage_ratio",
            "gauge",
            "Share of the key-value cache that running answers hold.",
            1 - free / blocks if blocks else 0.0,
        ),
    ]
