-- +goose Up
-- What may not start work, in one row: so a database cannot take away one hold and leave the others. A program that knows no holds does not open
-- the journal.
CREATE TABLE holds (
	id BIGINT NOT NULL PRIMARY KEY,
	body BYTEA NOT NULL
);
