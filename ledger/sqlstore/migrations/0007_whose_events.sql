-- +goose Up
-- project: whose event it is, '' if it belongs to no project. What readers of some projects are told is selected by it.
ALTER TABLE events ADD COLUMN project TEXT NOT NULL DEFAULT '';
UPDATE events SET project = COALESCE((SELECT runs.project FROM runs WHERE runs.id = events.run), '') WHERE run <> '';
CREATE INDEX events_of_project ON events (project, id);
-- The runs of each project are counted once a second while somebody looks at the dashboard.
CREATE INDEX runs_counted ON runs (project, state);
