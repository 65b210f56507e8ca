-- +goose Up

-- Times are unix microseconds, 0 if unset. The column body holds the whole record as JSON; the other columns repeat the
-- fields by which records are selected and sorted.

CREATE TABLE rosters (
	version BIGINT PRIMARY KEY,
	expires BIGINT NOT NULL,
	stored BIGINT NOT NULL,
	signed BYTEA NOT NULL
);

CREATE TABLE regions (
	name TEXT PRIMARY KEY
);

CREATE TABLE datacenters (
	id TEXT PRIMARY KEY,
	region TEXT NOT NULL REFERENCES regions (name),
	name TEXT NOT NULL,
	body TEXT NOT NULL
);

CREATE TABLE projects (
	id TEXT PRIMARY KEY,
	name TEXT NOT NULL,
	tenant TEXT NOT NULL
);

CREATE TABLE registrations (
	key_text TEXT NOT NULL,
	token TEXT NOT NULL,
	name TEXT NOT NULL,
	nonce BYTEA NOT NULL,
	proof BYTEA NOT NULL,
	url TEXT NOT NULL,
	received BIGINT NOT NULL,
	PRIMARY KEY (key_text, token)
);

CREATE TABLE submissions (
	payload TEXT PRIMARY KEY,
	run TEXT NOT NULL UNIQUE,
	datacenter TEXT NOT NULL,
	project TEXT NOT NULL,
	signer TEXT NOT NULL,
	script TEXT NOT NULL,
	state TEXT NOT NULL,
	failure TEXT NOT NULL,
	received BIGINT NOT NULL,
	expires BIGINT NOT NULL,
	signed BYTEA NOT NULL
);
CREATE INDEX submissions_waiting ON submissions (datacenter, received, payload) WHERE state = 'waiting';
CREATE INDEX submissions_overdue ON submissions (expires, payload) WHERE state = 'waiting';

-- accepted is 0 until the datacenter has accepted the run.
CREATE TABLE runs (
	id TEXT PRIMARY KEY,
	datacenter TEXT NOT NULL,
	project TEXT NOT NULL,
	project_name TEXT NOT NULL,
	signer TEXT NOT NULL,
	state TEXT NOT NULL,
	created BIGINT NOT NULL,
	accepted BIGINT NOT NULL,
	ended BIGINT NOT NULL,
	body TEXT NOT NULL
);
CREATE INDEX runs_newest ON runs (created, id);
CREATE INDEX runs_by_state ON runs (state, created, id);
CREATE INDEX runs_by_datacenter ON runs (datacenter, created, id);
CREATE INDEX runs_by_project ON runs (project, created, id);
CREATE INDEX runs_by_signer ON runs (signer, created, id);
CREATE INDEX runs_ended ON runs (ended) WHERE ended > 0;

CREATE TABLE calls (
	run TEXT NOT NULL,
	seq BIGINT NOT NULL,
	state TEXT NOT NULL,
	body TEXT NOT NULL,
	PRIMARY KEY (run, seq)
);

CREATE TABLE nodes (
	datacenter TEXT NOT NULL,
	id TEXT NOT NULL,
	name TEXT NOT NULL,
	admission TEXT NOT NULL,
	body TEXT NOT NULL,
	PRIMARY KEY (datacenter, id)
);
CREATE INDEX nodes_by_name ON nodes (datacenter, name, id);

CREATE TABLE resources (
	datacenter TEXT NOT NULL,
	project TEXT NOT NULL,
	kind TEXT NOT NULL,
	name TEXT NOT NULL,
	node TEXT NOT NULL,
	deployment TEXT NOT NULL,
	body TEXT NOT NULL,
	PRIMARY KEY (datacenter, project, kind, name)
);
CREATE INDEX resources_of_node ON resources (node, datacenter, project, kind, name);

-- For events of the ledger itself, journal is '' and seq is 0.
CREATE TABLE events (
	id BIGINT PRIMARY KEY,
	datacenter TEXT NOT NULL,
	journal TEXT NOT NULL,
	seq BIGINT NOT NULL,
	stored BIGINT NOT NULL,
	topic TEXT NOT NULL,
	run TEXT NOT NULL,
	body TEXT NOT NULL
);
CREATE INDEX events_of_run ON events (run, id);

-- The sequence number of the last stored event of each journal.
CREATE TABLE journals (
	datacenter TEXT NOT NULL,
	journal TEXT NOT NULL,
	seq BIGINT NOT NULL,
	PRIMARY KEY (datacenter, journal)
);

-- The last assigned event id. Every transaction that stores events locks this row, so events become visible in the
-- order of their ids.
CREATE TABLE counters (
	name TEXT PRIMARY KEY,
	value BIGINT NOT NULL
);
INSERT INTO counters (name, value) VALUES ('event', 0);

-- One row that Check overwrites, to find out whether the disk has room.
CREATE TABLE probes (
	name TEXT PRIMARY KEY,
	body BYTEA NOT NULL
);
