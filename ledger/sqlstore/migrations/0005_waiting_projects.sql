-- +goose Up
-- What waits for a datacenter is brought there in turns of its projects.
CREATE INDEX submissions_waiting_projects ON submissions (datacenter, project, received, payload) WHERE state = 'waiting';
DROP INDEX submissions_waiting;
