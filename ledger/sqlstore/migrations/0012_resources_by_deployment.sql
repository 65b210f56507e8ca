-- +goose Up
-- Deployments are listed a page at a time: without this, all resources are sorted for each page.
CREATE INDEX resources_by_deployment ON resources (datacenter, project, deployment) WHERE deployment <> '';
