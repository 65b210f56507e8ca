-- +goose Up
-- The engine that a run's script needs. Until now there was one.
ALTER TABLE runs ADD COLUMN engine TEXT NOT NULL DEFAULT 'tengo/2.17.0 api/1';
CREATE INDEX runs_engine ON runs (engine, accepted, id) WHERE open;
