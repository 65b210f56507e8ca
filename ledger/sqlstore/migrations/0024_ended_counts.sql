-- +goose Up
-- The numbers of ended runs. A count of the runs themselves would read an index entry for each run. See decision 73.
CREATE TABLE ended_counts (
	project TEXT NOT NULL,
	state TEXT NOT NULL,
	datacenter TEXT NOT NULL,
	signer TEXT NOT NULL,
	logs_only BOOLEAN NOT NULL,
	runs BIGINT NOT NULL,
	PRIMARY KEY (project, state, datacenter, signer, logs_only)
);
INSERT INTO ended_counts (project, state, datacenter, signer, logs_only, runs)
SELECT project, state, datacenter, signer, logs_only, COUNT(*) FROM runs
WHERE ended > 0
GROUP BY project, state, datacenter, signer, logs_only;

-- A search finds the end of its page in an index. The condition on ended is a column too, so that SQLite reads no runs.
-- Failures are grouped in the index of their project, datacenter, signer, script or deployment. The runs of a state, a
-- script or a deployment are counted in their index, which therefore has the project. The runs of a project, a signer or
-- a datacenter are counted in ended_counts.
DROP INDEX runs_ended_by_state;
CREATE INDEX runs_ended_by_state ON runs (state, created, id, project, logs_only, ended)
	WHERE ended > 0;
DROP INDEX runs_ended_by_project;
CREATE INDEX runs_ended_by_project ON runs (project, state, created, id, logs_only, failure, failed_operation, ended)
	WHERE ended > 0;
DROP INDEX runs_ended_by_datacenter;
CREATE INDEX runs_ended_by_datacenter ON runs (datacenter, state, created, id, logs_only, failure, failed_operation, ended)
	WHERE ended > 0;
DROP INDEX runs_ended_by_signer;
CREATE INDEX runs_ended_by_signer ON runs (signer, state, created, id, logs_only, failure, failed_operation, ended)
	WHERE ended > 0;
DROP INDEX runs_ended_by_script;
CREATE INDEX runs_ended_by_script ON runs (script, state, created, id, project, signer, logs_only, failure, failed_operation, ended)
	WHERE ended > 0;
DROP INDEX runs_ended_by_deployment;
CREATE INDEX runs_ended_by_deployment ON runs (deployment, state, created, id, project, logs_only, failure, failed_operation, ended)
	WHERE ended > 0 AND deployment <> '';
DROP INDEX runs_by_script;
CREATE INDEX runs_by_script ON runs (script, created, id, signer, logs_only);
DROP INDEX runs_by_failure;
CREATE INDEX runs_by_failure ON runs (created, failure, failed_operation, project, logs_only) WHERE failure <> '';
