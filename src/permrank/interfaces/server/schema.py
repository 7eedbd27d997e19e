"""Tables of the one file. Answers are appended, never changed; they go only when their person asks for erasure."""

VERSION = 1

TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE polls (
    id TEXT PRIMARY KEY, title TEXT NOT NULL, about TEXT NOT NULL, shows TEXT NOT NULL, state TEXT NOT NULL,
    created REAL NOT NULL, closed REAL
) WITHOUT ROWID;
CREATE TABLE items (
    poll TEXT NOT NULL REFERENCES polls, id TEXT NOT NULL, title TEXT NOT NULL, about TEXT NOT NULL,
    picture TEXT NOT NULL, position INTEGER NOT NULL, PRIMARY KEY (poll, id)
) WITHOUT ROWID;
CREATE TABLE people (
    id TEXT PRIMARY KEY, poll TEXT NOT NULL, name TEXT, created REAL NOT NULL, UNIQUE (poll, name)
) WITHOUT ROWID;
CREATE INDEX people_of_poll ON people (poll, id);
CREATE TABLE keys (
    id TEXT PRIMARY KEY, digest BLOB NOT NULL, role TEXT NOT NULL, poll TEXT, person TEXT, label TEXT NOT NULL,
    created REAL NOT NULL, revoked REAL
) WITHOUT ROWID;
CREATE INDEX keys_of_poll ON keys (poll, id);
CREATE TABLE answers (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, poll TEXT NOT NULL, person TEXT NOT NULL, kind TEXT NOT NULL,
    said TEXT NOT NULL, shown TEXT NOT NULL, at REAL NOT NULL, client_key TEXT, UNIQUE (poll, person, client_key)
);
CREATE INDEX answers_of_poll ON answers (poll, seq);
CREATE TABLE erasures (person TEXT PRIMARY KEY, poll TEXT NOT NULL, at REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE model_versions (
    version INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT NOT NULL, created REAL NOT NULL, seq INTEGER NOT NULL,
    note TEXT NOT NULL
);
CREATE TABLE communities (
    poll TEXT PRIMARY KEY, seq INTEGER NOT NULL, found TEXT NOT NULL, at REAL NOT NULL
) WITHOUT ROWID;
CREATE TRIGGER answers_stay BEFORE UPDATE ON answers BEGIN SELECT RAISE(ABORT, 'answers are never changed'); END;
CREATE TRIGGER answers_are_kept BEFORE DELETE ON answers
    WHEN NOT EXISTS (SELECT 1 FROM erasures WHERE person = OLD.person)
    BEGIN SELECT RAISE(ABORT, 'answers are kept unless their person is erased'); END;
"""
