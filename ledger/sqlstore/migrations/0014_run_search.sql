-- +goose Up
-- Runs are searched by text in their names, parameters and final error, and by the names of the resources of their
-- calls. words and parameters are in lower case. For existing runs, words has the names and the error code, and the
-- calls have no name.
ALTER TABLE runs ADD COLUMN words TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN parameters TEXT NOT NULL DEFAULT '';
ALTER TABLE calls ADD COLUMN name TEXT NOT NULL DEFAULT '';
UPDATE runs SET words = LOWER(script || ' ' || deployment || ' ' || project_name || ' ' || signer || ' ' || failure);
CREATE INDEX calls_by_name ON calls (name, run) WHERE name <> '';
