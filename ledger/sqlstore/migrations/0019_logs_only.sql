-- +goose Up
-- Lists and counts omit the runs that only read logs. Runs from before this migration count as other runs. The indexes
-- that count runs have the column, so that a count reads no runs.
ALTER TABLE runs ADD COLUMN logs_only BOOLEAN NOT NULL DEFAULT FALSE;
DROP INDEX runs_by_project_state;
DROP INDEX runs_counted_by_datacenter;
DROP INDEX runs_counted_by_signer;
CREATE INDEX runs_by_project_state ON runs (project, state, created, id, logs_only);
CREATE INDEX runs_counted_by_datacenter ON runs (datacenter, project, state, logs_only);
CREATE INDEX runs_counted_by_signer ON runs (signer, project, state, logs_only);
