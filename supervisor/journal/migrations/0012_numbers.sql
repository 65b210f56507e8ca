-- +goose Up
-- Two runs with one number would have each other's calls. A program from before that knows of no numbers cannot write what would.
CREATE UNIQUE INDEX runs_number ON runs (number);
