-- +goose Up
-- What nodes said of their machines, and how often these were started again. It is shown only.
CREATE TABLE lives (
	node TEXT NOT NULL PRIMARY KEY,
	body BYTEA NOT NULL
);
