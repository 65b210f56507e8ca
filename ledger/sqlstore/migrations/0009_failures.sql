-- +goose Up
-- Failures are grouped by code and operation. Both are empty for runs that failed before this migration; their bodies
-- still have the failure.
ALTER TABLE runs ADD COLUMN failure TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN failed_operation TEXT NOT NULL DEFAULT '';
CREATE INDEX runs_by_failure ON runs (created, failure, failed_operation, project) WHERE failure <> '';
-- Pages count the runs that the filter of a list selects. These indexes answer that without reading the runs.
CREATE INDEX runs_counted_by_datacenter ON runs (datacenter, project, state);
CREATE INDEX runs_counted_by_signer ON runs (signer, project, state);
