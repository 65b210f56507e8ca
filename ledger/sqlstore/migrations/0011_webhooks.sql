-- +goose Up
-- Where each webhook is: the id of the last event that it is done with, and the nodes that were lost then.
CREATE TABLE webhooks (
    name TEXT NOT NULL PRIMARY KEY,
    event BIGINT NOT NULL,
    lost TEXT NOT NULL
);
