"""What people do with each command: shown at the end of its help. Every line can be run."""

EXAMPLES: dict[str, tuple[str, ...]] = {
    "chat": ("edgellm chat", "edgellm chat qwen2.5-0.5b --context 4096", "edgellm chat --web"),
    "run": (
        'edgellm run smollm2 "Name three primes."',
        'git diff | edgellm run smollm2 --system "Describe this change in one sentence."',
        "edgellm run ./model.gguf --file question.txt --temperature 0 --json",
    ),
    "serve": (
        "edgellm serve smollm2",
        "edgellm serve smollm2 --port 8080 --api-key secret",
    ),
    "lsp": ("edgellm lsp --model qwen2.5-coder-1.5b",),
    "pull": ("edgellm pull smollm2", "edgellm pull hf:owner/repo/model-Q4_K_M.gguf --name mine"),
    "list": ("edgellm list", "edgellm list --stored --json"),
    "show": ("edgellm show smollm2", "edgellm show ./model.gguf --context 32768"),
    "fit": ("edgellm fit", "edgellm fit qwen3 --memory 8G"),
    "rm": ("edgellm rm smollm2",),
    "embed": (
        'edgellm embed ./embedder.gguf "a text"',
        "edgellm embed ./embedder.gguf --file lines.txt --lines",
    ),
    "tokenize": (
        'edgellm tokenize smollm2 "Hello there"',
        "edgellm tokenize smollm2 --file book.txt --count",
    ),
    "eval": (
        "edgellm eval perplexity smollm2 book.txt",
        "edgellm eval table small.gguf large.gguf --text book.txt --speed",
    ),
    "bench": ("edgellm bench smollm2", "edgellm bench smollm2 -p 512,2048 -n 64 -b 1,8"),
    "convert": ("edgellm convert ./checkpoint model.gguf --type Q8_0",),
    "quantize": (
        "edgellm quantize smollm2 smaller.gguf --type Q4_K_M",
        "edgellm quantize model.gguf smaller.gguf --target-size 2.5G",
    ),
    "imatrix": ("edgellm imatrix model.gguf texts.txt -o model.imatrix.gguf",),
    "doctor": ("edgellm doctor",),
}
