"""Speed of a model on this machine, below text and sampling: what `edgellm bench` reports."""
