-- +goose Up
-- Runs are found by words in their names, their parameters and the error that ended them, and by the names of resources of their calls. All words are
-- in small letters. Of runs that are there already, the names and the code of the error are known here; their calls have no name in this column.
ALTER TABLE runs ADD COLUMN words TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN parameters TEXT NOT NULL DEFAULT '';
ALTER TABLE calls ADD COLUMN name TEXT NOT NULL DEFAULT '';
UPDATE runs SET words = LOWER(script || ' ' || deployment || ' ' || project_name || ' ' || signer || ' ' || failure);
CREATE INDEX calls_by_name ON calls (name, run) WHERE name <> '';
