-- +goose Up
-- The chain of rosters without the texts: the digest of each version, and whether its text is needed to verify later ones. Versions without a
-- row here were stored by an earlier version of writ, and the texts of all of them are needed.
CREATE TABLE roster_links (
	version BIGINT PRIMARY KEY,
	digest TEXT NOT NULL,
	waypoint BOOLEAN NOT NULL
);
