-- +goose Up
-- The chain of rosters without their texts: the digest of each version, and whether its text is needed to verify later
-- versions. A roster without a row was stored by an earlier release of writ, and its text counts as needed.
CREATE TABLE roster_links (
	version BIGINT PRIMARY KEY,
	digest TEXT NOT NULL,
	waypoint BOOLEAN NOT NULL
);
