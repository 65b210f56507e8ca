CREATE TABLE calls (
	run TEXT NOT NULL,
	seq BIGINT NOT NULL,
	state TEXT NOT NULL,
	body TEXT NOT NULL, name TEXT NOT NULL DEFAULT '', line TEXT NOT NULL DEFAULT '', planned BIGINT NOT NULL DEFAULT 0,
	PRIMARY KEY (run, seq)
);

CREATE INDEX calls_by_name ON calls (name, run) WHERE name <> '';

CREATE TABLE counters (
	name TEXT PRIMARY KEY,
	value BIGINT NOT NULL
);

CREATE TABLE datacenters (
	id TEXT PRIMARY KEY,
	region TEXT NOT NULL REFERENCES regions (name),
	name TEXT NOT NULL,
	body TEXT NOT NULL
);

CREATE TABLE ended_counts (
	project TEXT NOT NULL,
	state TEXT NOT NULL,
	datacenter TEXT NOT NULL,
	signer TEXT NOT NULL,
	logs_only BOOLEAN NOT NULL,
	runs BIGINT NOT NULL,
	PRIMARY KEY (project, state, datacenter, signer, logs_only)
);

CREATE TABLE events (
	id BIGINT PRIMARY KEY,
	datacenter TEXT NOT NULL,
	journal TEXT NOT NULL,
	seq BIGINT NOT NULL,
	stored BIGINT NOT NULL,
	topic TEXT NOT NULL,
	run TEXT NOT NULL,
	body TEXT NOT NULL
, project TEXT NOT NULL DEFAULT '', run_number BIGINT NOT NULL DEFAULT 0);

CREATE INDEX events_of_numbered_run ON events (run_number, id) WHERE run_number > 0;

CREATE INDEX events_of_project ON events (project, id);

CREATE INDEX events_of_run ON events (run, id) WHERE run_number = 0 AND run <> '';

CREATE TABLE journals (
	datacenter TEXT NOT NULL,
	journal TEXT NOT NULL,
	seq BIGINT NOT NULL, at BIGINT NOT NULL DEFAULT 0, day BIGINT NOT NULL DEFAULT 0, event_bytes BIGINT NOT NULL DEFAULT 0, run_bytes BIGINT NOT NULL DEFAULT 0,
	PRIMARY KEY (datacenter, journal)
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

CREATE TABLE probes (
	name TEXT PRIMARY KEY,
	body BYTEA NOT NULL
);

CREATE TABLE projects (
	id TEXT PRIMARY KEY,
	name TEXT NOT NULL,
	tenant TEXT NOT NULL
);

CREATE TABLE regions (
	name TEXT PRIMARY KEY
);

CREATE TABLE "registrations" (
	id TEXT PRIMARY KEY,
	key_text TEXT NOT NULL,
	token TEXT NOT NULL,
	name TEXT NOT NULL,
	nonce BYTEA NOT NULL,
	proof BYTEA NOT NULL,
	url TEXT NOT NULL,
	network TEXT NOT NULL,
	received BIGINT NOT NULL
);

CREATE TABLE resources (
	datacenter TEXT NOT NULL,
	project TEXT NOT NULL,
	kind TEXT NOT NULL,
	name TEXT NOT NULL,
	node TEXT NOT NULL,
	deployment TEXT NOT NULL,
	body TEXT NOT NULL, troubled BOOLEAN NOT NULL DEFAULT FALSE,
	PRIMARY KEY (datacenter, project, kind, name)
);

CREATE INDEX resources_by_deployment ON resources (datacenter, project, deployment) WHERE deployment <> '';

CREATE INDEX resources_of_node ON resources (node, datacenter, project, kind, name);

CREATE INDEX resources_troubled ON resources (datacenter, project, kind, name) WHERE troubled = TRUE;

CREATE TABLE roster_links (
	version BIGINT PRIMARY KEY,
	digest TEXT NOT NULL,
	waypoint BOOLEAN NOT NULL
);

CREATE TABLE rosters (
	version BIGINT PRIMARY KEY,
	expires BIGINT NOT NULL,
	stored BIGINT NOT NULL,
	signed BYTEA NOT NULL
);

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
, journal TEXT NOT NULL DEFAULT '', script TEXT NOT NULL DEFAULT '', deployment TEXT NOT NULL DEFAULT '', failure TEXT NOT NULL DEFAULT '', failed_operation TEXT NOT NULL DEFAULT '', words TEXT NOT NULL DEFAULT '', parameters TEXT NOT NULL DEFAULT '', logs_only BOOLEAN NOT NULL DEFAULT FALSE, number BIGINT NOT NULL DEFAULT 0);

CREATE INDEX runs_by_datacenter ON runs (datacenter, created, id);

CREATE INDEX runs_by_deployment ON runs (deployment, created, id) WHERE deployment <> '';

CREATE INDEX runs_by_failure ON runs (created, failure, failed_operation, project, logs_only) WHERE failure <> '';

CREATE INDEX runs_by_project ON runs (project, created, id);

CREATE INDEX runs_by_script ON runs (script, created, id, signer, logs_only);

CREATE INDEX runs_by_signer ON runs (signer, created, id);

CREATE INDEX runs_ended ON runs (ended, id) WHERE ended > 0;

CREATE INDEX runs_ended_by_datacenter ON runs (datacenter, state, created, id, logs_only, failure, failed_operation, ended)
	WHERE ended > 0;

CREATE INDEX runs_ended_by_deployment ON runs (deployment, state, created, id, project, logs_only, failure, failed_operation, ended)
	WHERE ended > 0 AND deployment <> '';

CREATE INDEX runs_ended_by_project ON runs (project, state, created, id, logs_only, failure, failed_operation, ended)
	WHERE ended > 0;

CREATE INDEX runs_ended_by_script ON runs (script, state, created, id, project, signer, logs_only, failure, failed_operation, ended)
	WHERE ended > 0;

CREATE INDEX runs_ended_by_signer ON runs (signer, state, created, id, logs_only, failure, failed_operation, ended)
	WHERE ended > 0;

CREATE INDEX runs_ended_by_state ON runs (state, created, id, project, logs_only, ended)
	WHERE ended > 0;

CREATE INDEX runs_newest ON runs (created, id);

CREATE INDEX runs_of_deployment ON runs (datacenter, project, deployment, created, id) WHERE deployment <> '';

CREATE INDEX runs_open ON runs (datacenter, id) WHERE ended = 0 AND accepted <> 0;

CREATE INDEX runs_open_by_state ON runs (state, created, id, project, logs_only, datacenter, signer, script, deployment, ended, number)
	WHERE ended = 0;

CREATE TABLE shares (
	datacenter TEXT NOT NULL,
	kind TEXT NOT NULL,
	day BIGINT NOT NULL,
	bytes BIGINT NOT NULL,
	PRIMARY KEY (datacenter, kind, day)
);

CREATE TABLE submission_texts (
	run TEXT PRIMARY KEY,
	signed BYTEA NOT NULL
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
	expires BIGINT NOT NULL);

CREATE INDEX submissions_overdue ON submissions (expires, payload) WHERE state = 'waiting';

CREATE INDEX submissions_rejected ON submissions (signer, received, payload) WHERE state IN ('refused', 'expired');

CREATE INDEX submissions_waiting_projects ON submissions (datacenter, project, received, payload) WHERE state = 'waiting';

CREATE TABLE usage (
	project TEXT NOT NULL,
	hour BIGINT NOT NULL,
	datacenter TEXT NOT NULL,
	kind TEXT NOT NULL,
	name TEXT NOT NULL,
	uid TEXT NOT NULL,
	node TEXT NOT NULL,
	cpu_seconds BIGINT NOT NULL,
	memory_mib_seconds BIGINT NOT NULL,
	disk_gib_seconds BIGINT NOT NULL,
	received BIGINT NOT NULL,
	sent BIGINT NOT NULL,
	PRIMARY KEY (project, hour, datacenter, kind, name, uid, node)
);

CREATE INDEX usage_by_hour ON usage (hour);

CREATE TABLE usage_of_months (
	month BIGINT NOT NULL,
	project TEXT NOT NULL,
	kind TEXT NOT NULL,
	name TEXT NOT NULL,
	uid TEXT NOT NULL,
	datacenter TEXT NOT NULL,
	first BIGINT NOT NULL,
	last BIGINT NOT NULL,
	cpu_seconds BIGINT NOT NULL,
	memory_mib_seconds BIGINT NOT NULL,
	disk_gib_seconds BIGINT NOT NULL,
	received BIGINT NOT NULL,
	sent BIGINT NOT NULL,
	PRIMARY KEY (month, project, kind, name, uid, datacenter)
);

CREATE TABLE webhooks (
    name TEXT NOT NULL PRIMARY KEY,
    event BIGINT NOT NULL,
    lost TEXT NOT NULL
);

