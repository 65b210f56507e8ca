-- +goose Up
-- project: the project that owns the event, '' without one. It selects the events for readers of some projects.
ALTER TABLE events ADD COLUMN project TEXT NOT NULL DEFAULT '';
UPDATE events SET project = COALESCE((SELECT runs.project FROM runs WHERE runs.id = events.run), '') WHERE run <> '';
CREATE INDEX events_of_project ON events (project, id);
-- Open pages of the dashboard count the runs of each project once a second.
CREATE INDEX runs_counted ON runs (project, state);
