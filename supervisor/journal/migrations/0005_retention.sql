-- +goose Up
-- What is kept only for a time. ended is when a run ended, 0 while it is open. needed is until when it must be there however early it ended:
-- its submission could come again, or a resume. Runs that ended under an earlier version count from when they had to.
ALTER TABLE runs ADD COLUMN ended BIGINT NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN needed BIGINT NOT NULL DEFAULT 0;
UPDATE runs SET ended = due WHERE NOT open;
UPDATE runs SET needed = CASE WHEN due > accepted + 172800000000 THEN due ELSE accepted + 172800000000 END;
CREATE INDEX runs_ended ON runs (ended, id) WHERE NOT open;

-- A frame goes with the last result that came in it.
CREATE INDEX results_frame ON results (digest);

-- Runs that are gone, and of which there may still be calls, deliveries, results and lines.
CREATE TABLE forgotten (
	run TEXT NOT NULL PRIMARY KEY
);

-- Up to which event all coordinators had everything at a time.
CREATE TABLE event_marks (
	at BIGINT NOT NULL PRIMARY KEY,
	seq BIGINT NOT NULL
);
