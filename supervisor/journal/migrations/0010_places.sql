-- +goose Up
-- The key of a call was the name of its run, which is random, so that each call changed another page of the index. Runs are numbered as
-- they are accepted now, and a call is found by its place: the number of its run, times 4096, and its seq. What is worked on together lies
-- together.
ALTER TABLE runs ADD COLUMN number BIGINT NOT NULL DEFAULT 0;
UPDATE runs SET number = numbered.number
	FROM (SELECT id, ROW_NUMBER() OVER (ORDER BY accepted, id) AS number FROM runs) AS numbered WHERE numbered.id = runs.id;

-- Runs that are gone while there may still be calls of them come after all others.
ALTER TABLE forgotten ADD COLUMN number BIGINT NOT NULL DEFAULT 0;
UPDATE forgotten SET number = numbered.number + (SELECT COALESCE(MAX(number), 0) FROM runs)
	FROM (SELECT run, ROW_NUMBER() OVER (ORDER BY run) AS number FROM forgotten) AS numbered WHERE numbered.run = forgotten.run;

CREATE TABLE run_counter (
	only_row BIGINT NOT NULL PRIMARY KEY,
	number BIGINT NOT NULL
);
INSERT INTO run_counter (only_row, number)
	SELECT 1, COALESCE(MAX(number), 0) FROM (SELECT number FROM runs UNION ALL SELECT number FROM forgotten) AS numbers;

CREATE TABLE calls_by_place (
	place BIGINT NOT NULL PRIMARY KEY,
	run TEXT NOT NULL,
	seq BIGINT NOT NULL,
	state TEXT NOT NULL,
	open BOOLEAN NOT NULL,
	node TEXT NOT NULL,
	project TEXT NOT NULL,
	kind TEXT NOT NULL,
	name TEXT NOT NULL,
	claimed BOOLEAN NOT NULL,
	ready BOOLEAN NOT NULL,
	retry_at BIGINT NOT NULL,
	planned BIGINT NOT NULL,
	cpus BIGINT NOT NULL,
	memory_mib BIGINT NOT NULL,
	disk_gib BIGINT NOT NULL,
	body BYTEA NOT NULL
);
INSERT INTO calls_by_place (place, run, seq, state, open, node, project, kind, name, claimed, ready, retry_at, planned, cpus, memory_mib, disk_gib, body)
	SELECT numbers.number * 4096 + seq, calls.run, seq, state, open, node, project, kind, name, claimed, ready, retry_at, planned, cpus,
		memory_mib, disk_gib, body
	FROM calls JOIN (SELECT id AS run, number FROM runs UNION ALL SELECT run, number FROM forgotten) AS numbers ON numbers.run = calls.run
	ORDER BY numbers.number, seq;
DROP TABLE calls;
ALTER TABLE calls_by_place RENAME TO calls;

CREATE INDEX calls_sent ON calls (node, planned, run, seq) WHERE open AND state <> 'planned';
CREATE INDEX calls_sendable ON calls (node, planned, run, seq) WHERE open AND state = 'planned' AND ready;
CREATE INDEX calls_due ON calls (retry_at, run, seq) WHERE open AND retry_at > 0 AND NOT ready AND claimed;
CREATE INDEX calls_held ON calls (retry_at, run, seq) WHERE open AND retry_at > 0 AND NOT ready AND NOT claimed;
CREATE INDEX calls_claimed ON calls (project, kind, name, planned) WHERE open AND claimed AND kind <> '';
CREATE INDEX calls_waiting ON calls (project, kind, name, planned) WHERE open AND NOT claimed AND kind <> '';
CREATE INDEX calls_left ON calls (project, kind, name, planned) WHERE NOT open AND state <> 'succeeded' AND node <> '' AND kind <> '';
CREATE INDEX calls_placed ON calls (node, planned) WHERE open AND state = 'planned' AND node <> '';
