"""Tables of the one file. Answers and lists are appended, never changed; they go only with their person.

What belongs to a poll or to a person goes with it (``ON DELETE CASCADE``), and nothing can be stored for one that is
not there. Every column of a foreign key is the beginning of an index.
"""

VERSION = 2

TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE polls (
    id TEXT PRIMARY KEY, title TEXT NOT NULL, about TEXT NOT NULL, shows TEXT NOT NULL, state TEXT NOT NULL,
    created REAL NOT NULL, closed REAL
) WITHOUT ROWID;
CREATE TABLE items (
    poll TEXT NOT NULL REFERENCES polls ON DELETE CASCADE, id TEXT NOT NULL, title TEXT NOT NULL, about TEXT NOT NULL,
    picture TEXT NOT NULL, position INTEGER NOT NULL, PRIMARY KEY (poll, id)
) WITHOUT ROWID;
CREATE TABLE people (
    poll TEXT NOT NULL REFERENCES polls ON DELETE CASCADE, id TEXT NOT NULL, name TEXT, created REAL NOT NULL,
    PRIMARY KEY (poll, id), UNIQUE (poll, name)
) WITHOUT ROWID;
CREATE TABLE keys (
    id TEXT PRIMARY KEY, digest BLOB NOT NULL, role TEXT NOT NULL, poll TEXT REFERENCES polls ON DELETE CASCADE,
    person TEXT, label TEXT NOT NULL, created REAL NOT NULL, revoked REAL,
    FOREIGN KEY (poll, person) REFERENCES people (poll, id) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX keys_of_poll ON keys (poll, id);
CREATE INDEX keys_of_person ON keys (poll, person);
CREATE TABLE answers (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, poll TEXT NOT NULL, person TEXT NOT NULL, kind TEXT NOT NULL,
    said TEXT NOT NULL, shown TEXT NOT NULL, at REAL NOT NULL, client_key TEXT, UNIQUE (poll, person, client_key),
    FOREIGN KEY (poll, person) REFERENCES people (poll, id) ON DELETE CASCADE
);
CREATE INDEX answers_of_poll ON answers (poll, seq);
CREATE TABLE requests (
    poll TEXT NOT NULL, sender TEXT NOT NULL, client_key TEXT NOT NULL, digest BLOB NOT NULL, person TEXT NOT NULL,
    PRIMARY KEY (poll, sender, client_key),
    FOREIGN KEY (poll, person) REFERENCES people (poll, id) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE INDEX requests_of_person ON requests (poll, person);
CREATE TABLE communities (
    poll TEXT PRIMARY KEY REFERENCES polls ON DELETE CASCADE, seq INTEGER NOT NULL, found TEXT NOT NULL,
    at REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE lists (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, base TEXT NOT NULL, person TEXT NOT NULL, said TEXT NOT NULL,
    at REAL NOT NULL
);
CREATE INDEX lists_of_person ON lists (person, base, seq);
CREATE INDEX lists_of_base ON lists (base, seq, person);
CREATE TABLE model_versions (
    version INTEGER PRIMARY KEY AUTOINCREMENT, base TEXT NOT NULL, created REAL NOT NULL, seq INTEGER NOT NULL,
    state TEXT NOT NULL
);
CREATE TABLE erasures (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, poll TEXT NOT NULL, at REAL NOT NULL, done INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX erasures_of_poll ON erasures (poll);
CREATE INDEX erasures_pending ON erasures (seq) WHERE NOT done;
CREATE TRIGGER answers_stay BEFORE UPDATE ON answers BEGIN SELECT RAISE(ABORT, 'answers are never changed'); END;
CREATE TRIGGER answers_are_kept BEFORE DELETE ON answers
    WHEN EXISTS (SELECT 1 FROM people WHERE poll = OLD.poll AND id = OLD.person)
    BEGIN SELECT RAISE(ABORT, 'answers are kept unless their person is erased'); END;
CREATE TRIGGER lists_stay BEFORE UPDATE ON lists BEGIN SELECT RAISE(ABORT, 'lists are never changed'); END;
"""
