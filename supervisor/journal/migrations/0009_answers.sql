-- +goose Up
-- The result that ended a try stands in the row of its call; results has those of earlier tries and those that came late, and all of earlier
-- versions. So a frame says by itself for whom it is kept: until all these runs are gone.
ALTER TABLE frames ADD COLUMN runs TEXT NOT NULL DEFAULT '';
