-- +goose Up
-- A look of the watch, a placement and a start must not cost more because more runs wait: counts are kept instead of counted, and every
-- question about what is open has an index that holds its answers only. Where it can be, an index is in the order of time: what is added
-- goes to its end, and one page of it holds what a whole commit adds.

-- What is open and reserved on each node, kept by the transactions that change calls and resources; node '' has what is not placed yet.
CREATE TABLE loads (
	node TEXT NOT NULL PRIMARY KEY,
	planned BIGINT NOT NULL,
	queued BIGINT NOT NULL,
	running BIGINT NOT NULL,
	cpus BIGINT NOT NULL,
	memory_mib BIGINT NOT NULL,
	disk_gib BIGINT NOT NULL
);
INSERT INTO loads (node, planned, queued, running, cpus, memory_mib, disk_gib)
	SELECT node, CAST(SUM(planned) AS BIGINT), CAST(SUM(queued) AS BIGINT), CAST(SUM(running) AS BIGINT),
		CAST(SUM(cpus) AS BIGINT), CAST(SUM(memory_mib) AS BIGINT), CAST(SUM(disk_gib) AS BIGINT) FROM (
		SELECT node, CASE WHEN state = 'planned' THEN 1 ELSE 0 END AS planned, CASE WHEN state = 'queued' THEN 1 ELSE 0 END AS queued,
			CASE WHEN state = 'running' THEN 1 ELSE 0 END AS running, cpus, memory_mib, disk_gib FROM calls WHERE open
		UNION ALL
		SELECT node, 0, 0, 0, cpus, memory_mib, disk_gib FROM resources
	) AS reserved GROUP BY node;

-- pending: a pass may bring something new. judged: the newest roster by which the run's submission was found good; 0 if none was noted.
ALTER TABLE runs ADD COLUMN pending BOOLEAN NOT NULL DEFAULT TRUE;
ALTER TABLE runs ADD COLUMN judged BIGINT NOT NULL DEFAULT 0;
DROP INDEX runs_open;
DROP INDEX runs_deployment;
CREATE INDEX runs_deployment ON runs (project, deployment, revision) WHERE open AND deployment <> '';
CREATE INDEX runs_pending ON runs (accepted, id) WHERE open AND pending;
CREATE INDEX runs_judged ON runs (judged, accepted, id) WHERE open;
CREATE INDEX runs_due ON runs (due, id) WHERE open;

DROP INDEX calls_open;
DROP INDEX calls_due;
DROP INDEX calls_resource;
CREATE INDEX calls_on ON calls (node, planned, run) WHERE open;
CREATE INDEX calls_sent ON calls (node, planned, run, seq) WHERE open AND state <> 'planned';
CREATE INDEX calls_sendable ON calls (node, planned, run, seq) WHERE open AND state = 'planned' AND ready;
CREATE INDEX calls_due ON calls (retry_at, run, seq) WHERE open AND retry_at > 0 AND NOT ready AND claimed;
CREATE INDEX calls_held ON calls (retry_at, run, seq) WHERE open AND retry_at > 0 AND NOT ready AND NOT claimed;
CREATE INDEX calls_claimed ON calls (project, kind, name, planned) WHERE open AND claimed AND kind <> '';
CREATE INDEX calls_waiting ON calls (project, kind, name, planned) WHERE open AND NOT claimed AND kind <> '';
