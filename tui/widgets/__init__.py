"""The parts of the screen. Each shows what it is given and posts what the user does."""
