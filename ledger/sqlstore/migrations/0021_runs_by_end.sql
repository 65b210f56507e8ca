-- +goose Up
-- Open runs are few and change their state often. Ended runs are many and do not change. So they have separate indexes,
-- and an ended run is added to its indexes once. A condition of a list must repeat the condition of its index literally.
UPDATE runs SET ended = 0 WHERE ended <> 0 AND state IN ('waiting', 'accepted', 'running');
UPDATE runs SET ended = created WHERE ended = 0 AND state NOT IN ('waiting', 'accepted', 'running');
DROP INDEX runs_by_state;
DROP INDEX runs_by_project_state;
DROP INDEX runs_counted_by_datacenter;
DROP INDEX runs_counted_by_signer;
CREATE INDEX runs_open_by_state ON runs (state, created, id, project, logs_only, datacenter, signer, script, deployment, ended)
	WHERE ended = 0;
CREATE INDEX runs_ended_by_state ON runs (state, created, id)
	WHERE ended > 0;
CREATE INDEX runs_ended_by_project ON runs (project, state, created, id, logs_only, ended)
	WHERE ended > 0;
CREATE INDEX runs_ended_by_datacenter ON runs (datacenter, state, created, id, project, logs_only, ended)
	WHERE ended > 0;
CREATE INDEX runs_ended_by_signer ON runs (signer, state, created, id, project, logs_only, ended)
	WHERE ended > 0;
CREATE INDEX runs_ended_by_script ON runs (script, state, created, id)
	WHERE ended > 0;
CREATE INDEX runs_ended_by_deployment ON runs (deployment, state, created, id)
	WHERE ended > 0;
