"""What the actions do. Functions of the app and of the words that follow a slash command."""
