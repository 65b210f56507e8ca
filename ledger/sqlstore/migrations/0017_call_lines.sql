-- +goose Up
-- Endless loops are found by the newest calls of a run: line is a digest of the operation, the resource and the
-- position in the script, and planned is the time of the pass that made the call. Both are unset for existing calls
-- until their next event.
ALTER TABLE calls ADD COLUMN line TEXT NOT NULL DEFAULT '';
ALTER TABLE calls ADD COLUMN planned BIGINT NOT NULL DEFAULT 0;
