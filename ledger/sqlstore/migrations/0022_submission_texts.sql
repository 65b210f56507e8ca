-- +goose Up
-- A text has up to a MiB and does not change, while its submission changes its state. SQLite writes a changed row as a
-- whole, so texts have a table of their own. Rejected submissions have no text.
CREATE TABLE submission_texts (
	run TEXT PRIMARY KEY,
	signed BYTEA NOT NULL
);
INSERT INTO submission_texts (run, signed) SELECT run, signed FROM submissions WHERE LENGTH(signed) > 0;
ALTER TABLE submissions DROP COLUMN signed;
