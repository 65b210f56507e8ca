-- +goose Up
-- Failures are grouped by code and operation. Runs that failed before have neither here: their copies say why, one by one.
ALTER TABLE runs ADD COLUMN failure TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN failed_operation TEXT NOT NULL DEFAULT '';
CREATE INDEX runs_by_failure ON runs (created, failure, failed_operation, project) WHERE failure <> '';
