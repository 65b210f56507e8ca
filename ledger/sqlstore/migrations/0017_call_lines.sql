-- +goose Up
-- Runs that repeat a call for ever are found by their newest calls: line stands for the operation, the resource and the place in the script, and
-- planned is the time of the pass that made the call. Both are unknown for calls of earlier versions until their next event.
ALTER TABLE calls ADD COLUMN line TEXT NOT NULL DEFAULT '';
ALTER TABLE calls ADD COLUMN planned BIGINT NOT NULL DEFAULT 0;
