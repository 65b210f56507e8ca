-- +goose Up
-- end_by is from now on the end of the run's deadline, if the job says it: deliveries come until then.
-- began: somebody was about to act; a job that was refused before has none of it.
ALTER TABLE jobs ADD COLUMN began BOOLEAN NOT NULL DEFAULT TRUE;
