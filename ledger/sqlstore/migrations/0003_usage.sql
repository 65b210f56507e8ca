-- +goose Up

-- what a resource has used of a node within an hour, as its datacenter told last; it only grows
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
