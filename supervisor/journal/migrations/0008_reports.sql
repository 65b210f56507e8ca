-- +goose Up
-- Each report of a node is held against the resources there.
CREATE INDEX resources_of_node ON resources (node);
