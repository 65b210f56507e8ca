-- +goose Up
-- Tokens with which boot servers report. They admit no node, so they are not among those that do.
CREATE TABLE boot_tokens (
	id TEXT NOT NULL PRIMARY KEY,
	expires BIGINT NOT NULL,
	body BYTEA NOT NULL
);
