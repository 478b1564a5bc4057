"""Times ik_llama.cpp on one model with one setting; run by the Python that has its wheel.

    PYTHON ik_worker.py MODEL PROMPT GENERATED DEPTH THREADS REPACK FLASH

Prints JSON: tokens/s of the prompt and of generation, one token at a time. REPACK and FLASH are 0
or 1: run-time repacking of weights and flash attention.
"""

import json
import random
import sys
import time
from typing import Any

MAX_BATCH = 512


def main(model_path: str, *numbers: str) -> None:
    import ik_llama_cpp._ctypes_api as api
    from ik_llama_cpp import llama

    prompt, generated, depth, threads, repack, flash = map(int, numbers)
    api.llama_backend_init()
    options = api.llama_model_default_params()
    options.n_gpu_layers = 0
    options.repack_tensors, options.use_mmap = bool(repack), not repack
    model = api.llama_model_load_from_file(model_path.encode(), options)
    settings = api.llama_context_default_params()
    settings.n_ctx = prompt + generated + depth + 64
    settings.n_batch = settings.n_ubatch = MAX_BATCH
    settings.n_threads = settings.n_threads_batch = threads
    settings.flash_attn = bool(flash)
    context = api.llama_init_from_model(model, settings)
    ids = random.Random(0).choices(range(1000, 20000), k=prompt + generated + depth)

    def run(batch: Any) -> None:
        if api.llama_decode(context, batch):
            raise SystemExit("llama_decode failed")
        api.llama_batch_free(batch)

    def fill(start: int, count: int) -> None:
        for begin in range(start, start + count, MAX_BATCH):
            part = ids[begin : min(begin + MAX_BATCH, start + count)]
            run(llama.make_batch_range(part, pos_start=begin, logits_last=True))

    def rate(work: Any, count: int) -> float | None:
        if not count:
            return None
        api.llama_kv_cache_clear(context)
        fill(0, depth)
        began = time.perf_counter()
        work()
        return count / (time.perf_counter() - began)

    fill(0, min(prompt, 32))  # a first run is slower
    prefill = rate(lambda: fill(depth, prompt), prompt)
    tokens = range(depth, depth + generated)
    decode = rate(
        lambda: [run(llama.make_batch_single(ids[at], at)) for at in tokens] and None, generated
    )
    print(json.dumps({"prefill": prefill, "decode": decode}))


if __name__ == "__main__":
    main(*sys.argv[1:])
