-- +goose Up
-- Pruning keeps the newest revisions of deployments. It reads old runs in steps, and looks for newer runs of the same
-- deployment.
DROP INDEX runs_ended;
CREATE INDEX runs_ended ON runs (ended, id) WHERE ended > 0;
CREATE INDEX runs_of_deployment ON runs (datacenter, project, deployment, created, id) WHERE deployment <> '';
