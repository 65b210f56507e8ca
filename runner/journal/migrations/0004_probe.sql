-- +goose Up
-- A probe takes as much room as jobs that begin: what fits into the last free bytes proves nothing.
ALTER TABLE node ADD COLUMN probe BYTEA;
