-- +goose Up
-- Tokens that admit several nodes: how many, and how many they have. One that is not here admits one.
CREATE TABLE token_uses (
	token TEXT NOT NULL PRIMARY KEY,
	uses BIGINT NOT NULL,
	used BIGINT NOT NULL,
	mac BYTEA
);
