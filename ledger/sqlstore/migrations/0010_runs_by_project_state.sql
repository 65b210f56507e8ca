-- +goose Up
-- Pages ask every few seconds for the failed runs of a project, which are few. An index by project alone would read all
-- runs of the project. This index also counts the runs of each project.
CREATE INDEX runs_by_project_state ON runs (project, state, created, id);
DROP INDEX runs_counted;
