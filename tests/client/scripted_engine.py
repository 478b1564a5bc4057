"""`edgellm serve` with a scripted model already loaded: the child process of tests.

SCRIPTED_DELAY: seconds that each token takes.
"""

import os
import sys

from edgellm import cli
from edgellm.cli import serve
from edgellm.client import LocalClient
from tests.mock_model import MockModel, make_manager, says

if __name__ == "__main__":
    manager = make_manager(
        MockModel(says("x" * 60), delay=float(os.environ.get("SCRIPTED_DELAY", 0.01)))
    )
    serve.LocalClient = lambda _: LocalClient(manager)  # type: ignore[misc,assignment]
    sys.exit(cli.main(["serve", "--private", *sys.argv[1:]]))
