-- +goose Up
-- People ask every few seconds for the failed runs of a project, of which there are few: the index by project alone leads past all the others. This one
-- also counts the runs of each project.
CREATE INDEX runs_by_project_state ON runs (project, state, created, id);
DROP INDEX runs_counted;
