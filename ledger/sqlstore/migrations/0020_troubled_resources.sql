-- +goose Up
-- The first page of the dashboard counts resources with a problem, without a read of all resources. The patterns are
-- those of the stored JSON; the next event of a resource sets the column from its fields.
ALTER TABLE resources ADD COLUMN troubled BOOLEAN NOT NULL DEFAULT FALSE;
UPDATE resources SET troubled = TRUE
WHERE body LIKE '%"drift":[%' OR body LIKE '%"state":"gone"%' OR body LIKE '%"state":"unknown"%'
	OR body LIKE '%"health":"unhealthy"%';
CREATE INDEX resources_troubled ON resources (datacenter, project, kind, name) WHERE troubled = TRUE;
