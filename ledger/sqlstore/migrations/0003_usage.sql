-- +goose Up

-- The usage of a resource on a node in an hour: the largest value of each number that its datacenter has reported.
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
