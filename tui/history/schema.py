"""The tables of the history, as steps from each version of them to the next. SQL alone."""

# Step n takes a database of user_version n to n + 1. A step that has been released never changes.
#
# message_text indexes finished messages by trigrams, so that any piece of text of three characters
# is found in every script; a message is in it exactly when it has a finish_reason, so that text
# which is still growing costs no indexing.
MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE conversation (
        id INTEGER PRIMARY KEY,
        title TEXT NOT NULL,
        model TEXT,
        system TEXT NOT NULL,
        settings TEXT NOT NULL,
        pinned INTEGER NOT NULL,
        archived INTEGER NOT NULL,
        created REAL NOT NULL,
        updated REAL NOT NULL,
        head INTEGER
    );
    CREATE INDEX conversation_updated ON conversation (archived, pinned, updated);

    CREATE TABLE message (
        id INTEGER PRIMARY KEY,
        conversation INTEGER NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,
        parent INTEGER,
        role TEXT NOT NULL,
        content TEXT NOT NULL,
        created REAL NOT NULL,
        finish_reason TEXT,
        model TEXT,
        token_ids TEXT NOT NULL,
        prompt_tokens INTEGER NOT NULL,
        first_token REAL,
        tokens_per_second REAL
    );
    CREATE INDEX message_conversation ON message (conversation);

    CREATE TABLE said (
        id INTEGER PRIMARY KEY,
        text TEXT NOT NULL UNIQUE
    );

    CREATE VIRTUAL TABLE message_text USING fts5 (
        content, content='message', content_rowid='id', tokenize='trigram'
    );
    CREATE TRIGGER message_insert AFTER INSERT ON message
    WHEN new.finish_reason IS NOT NULL BEGIN
        INSERT INTO message_text (rowid, content) VALUES (new.id, new.content);
    END;
    CREATE TRIGGER message_delete AFTER DELETE ON message
    WHEN old.finish_reason IS NOT NULL BEGIN
        INSERT INTO message_text (message_text, rowid, content)
        VALUES ('delete', old.id, old.content);
    END;
    CREATE TRIGGER message_update AFTER UPDATE ON message BEGIN
        INSERT INTO message_text (message_text, rowid, content)
        SELECT 'delete', old.id, old.content WHERE old.finish_reason IS NOT NULL;
        INSERT INTO message_text (rowid, content)
        SELECT new.id, new.content WHERE new.finish_reason IS NOT NULL;
    END;
    """,
    """
    ALTER TABLE message ADD COLUMN thoughts TEXT NOT NULL DEFAULT '';
    ALTER TABLE message ADD COLUMN thought_seconds REAL;
    """,
)
