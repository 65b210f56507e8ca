-- +goose Up
-- The progress of each webhook: the id of the last delivered or skipped event, and the nodes that were lost at that
-- event.
CREATE TABLE webhooks (
    name TEXT NOT NULL PRIMARY KEY,
    event BIGINT NOT NULL,
    lost TEXT NOT NULL
);
