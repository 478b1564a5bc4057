"""`python -m edgellm`: the same as the `edgellm` command."""

import sys

from edgellm.cli import main

if __name__ == "__main__":
    sys.exit(main())
