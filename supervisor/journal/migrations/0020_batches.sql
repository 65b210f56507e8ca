-- +goose Up
-- Batches of nodes that a person has approved by the serial numbers of their machines.
CREATE TABLE batches (
	id TEXT NOT NULL PRIMARY KEY,
	until BIGINT NOT NULL,
	body BYTEA NOT NULL
);
