"""The language server of `edgellm lsp`: what a model would write at the cursor, for any editor.

It asks a running server or an engine in a child process, through edgellm.client. Knows nothing of
engines.
"""
