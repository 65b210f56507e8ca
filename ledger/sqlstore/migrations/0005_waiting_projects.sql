-- +goose Up
-- Couriers deliver the waiting submissions of a datacenter by project, in turns.
CREATE INDEX submissions_waiting_projects ON submissions (datacenter, project, received, payload) WHERE state = 'waiting';
DROP INDEX submissions_waiting;
