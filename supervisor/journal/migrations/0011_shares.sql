-- +goose Up
-- The room of a node is shared between projects: what is out there, and what waits for it, is looked for by project.
DROP INDEX calls_sent;
CREATE INDEX calls_sent ON calls (node, project) WHERE open AND state <> 'planned';
DROP INDEX calls_sendable;
CREATE INDEX calls_sendable ON calls (node, project, planned, run, seq) WHERE open AND state = 'planned' AND ready;
