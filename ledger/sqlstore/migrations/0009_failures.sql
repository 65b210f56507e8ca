-- +goose Up
-- Failures are grouped by code and operation. Runs that failed before have neither here: their copies say why, one by one.
ALTER TABLE runs ADD COLUMN failure TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN failed_operation TEXT NOT NULL DEFAULT '';
CREATE INDEX runs_by_failure ON runs (created, failure, failed_operation, project) WHERE failure <> '';
-- Numbers beside lists are counted by the filter of the list: with these, without a look at each run.
CREATE INDEX runs_counted_by_datacenter ON runs (datacenter, project, state);
CREATE INDEX runs_counted_by_signer ON runs (signer, project, state);
