-- +goose Up
-- open is a column of its own because an index over part of a table serves a query only if both say the same words.
-- Everything that one datacenter knows for sure. Columns hold what is searched; body is the record itself, in deterministic CBOR.

CREATE TABLE meta (
	name TEXT NOT NULL PRIMARY KEY,
	value TEXT NOT NULL
);

CREATE TABLE event_counter (
	only_row BIGINT NOT NULL PRIMARY KEY,
	seq BIGINT NOT NULL
);
INSERT INTO event_counter (only_row, seq) VALUES (1, 0);

CREATE TABLE rosters (
	version BIGINT NOT NULL PRIMARY KEY,
	signed BYTEA NOT NULL
);

CREATE TABLE payloads (
	digest TEXT NOT NULL PRIMARY KEY,
	signed BYTEA NOT NULL,
	run TEXT NOT NULL
);

CREATE TABLE statements (
	digest TEXT NOT NULL PRIMARY KEY,
	signed BYTEA NOT NULL,
	answer BYTEA NOT NULL,
	expires BIGINT NOT NULL
);

CREATE TABLE runs (
	id TEXT NOT NULL PRIMARY KEY,
	state TEXT NOT NULL,
	open BOOLEAN NOT NULL,
	project TEXT NOT NULL,
	deployment TEXT NOT NULL,
	revision BIGINT NOT NULL,
	accepted BIGINT NOT NULL,
	due BIGINT NOT NULL,
	body BYTEA NOT NULL
);
CREATE INDEX runs_open ON runs (accepted, id) WHERE open;
CREATE INDEX runs_deployment ON runs (project, deployment, revision) WHERE open;

CREATE TABLE calls (
	run TEXT NOT NULL,
	seq BIGINT NOT NULL,
	state TEXT NOT NULL,
	open BOOLEAN NOT NULL,
	node TEXT NOT NULL,
	project TEXT NOT NULL,
	kind TEXT NOT NULL,
	name TEXT NOT NULL,
	claimed BOOLEAN NOT NULL,
	ready BOOLEAN NOT NULL,
	retry_at BIGINT NOT NULL,
	planned BIGINT NOT NULL,
	cpus BIGINT NOT NULL,
	memory_mib BIGINT NOT NULL,
	disk_gib BIGINT NOT NULL,
	body BYTEA NOT NULL,
	PRIMARY KEY (run, seq)
);
CREATE INDEX calls_open ON calls (node, state, planned) WHERE open;
CREATE INDEX calls_due ON calls (retry_at) WHERE open;
CREATE INDEX calls_resource ON calls (project, kind, name) WHERE open;

CREATE TABLE deliveries (
	run TEXT NOT NULL,
	seq BIGINT NOT NULL,
	try BIGINT NOT NULL,
	delivery BIGINT NOT NULL,
	node TEXT NOT NULL,
	digest TEXT NOT NULL,
	epoch BIGINT NOT NULL,
	sent BIGINT NOT NULL,
	PRIMARY KEY (run, seq, try, delivery)
);

CREATE TABLE results (
	run TEXT NOT NULL,
	seq BIGINT NOT NULL,
	try BIGINT NOT NULL,
	digest TEXT NOT NULL,
	PRIMARY KEY (run, seq, try)
);

CREATE TABLE frames (
	digest TEXT NOT NULL PRIMARY KEY,
	sealed BYTEA NOT NULL
);

CREATE TABLE logs (
	run TEXT NOT NULL,
	ordinal BIGINT NOT NULL,
	text TEXT NOT NULL,
	time BIGINT NOT NULL,
	PRIMARY KEY (run, ordinal)
);

CREATE TABLE resources (
	project TEXT NOT NULL,
	kind TEXT NOT NULL,
	name TEXT NOT NULL,
	node TEXT NOT NULL,
	cpus BIGINT NOT NULL,
	memory_mib BIGINT NOT NULL,
	disk_gib BIGINT NOT NULL,
	body BYTEA NOT NULL,
	PRIMARY KEY (project, kind, name)
);

CREATE TABLE deployments (
	project TEXT NOT NULL,
	name TEXT NOT NULL,
	revision BIGINT NOT NULL,
	PRIMARY KEY (project, name)
);

CREATE TABLE nodes (
	id TEXT NOT NULL PRIMARY KEY,
	name TEXT NOT NULL UNIQUE,
	key_id TEXT NOT NULL UNIQUE,
	body BYTEA NOT NULL
);

CREATE TABLE tokens (
	id TEXT NOT NULL PRIMARY KEY,
	key BYTEA NOT NULL,
	created_by TEXT NOT NULL,
	expires BIGINT NOT NULL,
	spent BIGINT NOT NULL,
	spent_key TEXT NOT NULL
);

CREATE TABLE events (
	seq BIGINT NOT NULL PRIMARY KEY,
	body BYTEA NOT NULL
);

CREATE TABLE acknowledgements (
	coordinator TEXT NOT NULL PRIMARY KEY,
	seq BIGINT NOT NULL
);
