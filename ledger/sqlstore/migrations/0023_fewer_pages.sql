-- +goose Up
-- A number grows with each run. Index entries of the events of open runs are therefore close together, so that a commit
-- writes few pages. Ids of runs are random. All events of a run have its number, or 0 if the run has no number: runs of
-- earlier versions, and runs that the ledger first knew from events.
ALTER TABLE runs ADD COLUMN number BIGINT NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN run_number BIGINT NOT NULL DEFAULT 0;
CREATE INDEX events_of_numbered_run ON events (run_number, id) WHERE run_number > 0;
DROP INDEX events_of_run;
CREATE INDEX events_of_run ON events (run, id) WHERE run_number = 0 AND run <> '';
DROP INDEX runs_open_by_state;
CREATE INDEX runs_open_by_state ON runs (state, created, id, project, logs_only, datacenter, signer, script, deployment, ended, number)
	WHERE ended = 0;

-- Most runs have no deployment.
DROP INDEX runs_by_deployment;
CREATE INDEX runs_by_deployment ON runs (deployment, created, id) WHERE deployment <> '';
DROP INDEX runs_ended_by_deployment;
CREATE INDEX runs_ended_by_deployment ON runs (deployment, state, created, id)
	WHERE ended > 0 AND deployment <> '';

-- The bytes that the events of a journal have added to shares on a day, until they are moved to the table shares. So a
-- commit of events writes one row for the position and the bytes.
ALTER TABLE journals ADD COLUMN day BIGINT NOT NULL DEFAULT 0;
ALTER TABLE journals ADD COLUMN event_bytes BIGINT NOT NULL DEFAULT 0;
ALTER TABLE journals ADD COLUMN run_bytes BIGINT NOT NULL DEFAULT 0;

-- From here on, the counter is a lower bound of the newest id. It is set when events are deleted.
