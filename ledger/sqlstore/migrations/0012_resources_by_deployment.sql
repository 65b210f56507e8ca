-- +goose Up
-- Deployments are listed in pages. Without this index, every page would sort all resources.
CREATE INDEX resources_by_deployment ON resources (datacenter, project, deployment) WHERE deployment <> '';
