-- +goose Up
-- The versions of secrets, encrypted to the supervisor as they came. A version that was removed has no value and stays, so that its number
-- is not given again.
CREATE TABLE secrets (
	project TEXT NOT NULL,
	name TEXT NOT NULL,
	version BIGINT NOT NULL,
	sealed BYTEA NOT NULL,
	statement TEXT NOT NULL,
	set_by TEXT NOT NULL,
	set_at BIGINT NOT NULL,
	removed BIGINT NOT NULL,
	PRIMARY KEY (project, name, version)
);
