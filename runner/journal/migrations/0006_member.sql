-- +goose Up
-- The node whose journal this is; empty until the next start of its runner.
ALTER TABLE node ADD COLUMN member TEXT NOT NULL DEFAULT '';
