-- +goose Up
-- What resources have used within an hour, in thousandths: seconds would lose the rest of every look. A row is told again while its version is
-- ahead of the one that the supervisor has acknowledged.
CREATE TABLE usage (
	uid TEXT NOT NULL,
	hour BIGINT NOT NULL,
	project TEXT NOT NULL,
	kind TEXT NOT NULL,
	name TEXT NOT NULL,
	cpu_ms BIGINT NOT NULL,
	memory_mib_ms BIGINT NOT NULL,
	disk_gib_ms BIGINT NOT NULL,
	received BIGINT NOT NULL,
	sent BIGINT NOT NULL,
	version BIGINT NOT NULL,
	told BIGINT NOT NULL,
	PRIMARY KEY (uid, hour)
);

-- The last look at each resource: when it was, and where its counters stood.
CREATE TABLE readings (
	uid TEXT PRIMARY KEY,
	at BIGINT NOT NULL,
	received BIGINT NOT NULL,
	sent BIGINT NOT NULL
);
