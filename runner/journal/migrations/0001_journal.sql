-- +goose Up

-- What this node knows of itself. One row.
CREATE TABLE node (
	id          BIGINT PRIMARY KEY CHECK (id = 1),
	epoch       BIGINT NOT NULL, -- the highest of a supervisor that was ever seen
	incarnation BIGINT NOT NULL, -- numbers the starts of the runner
	probed      BIGINT NOT NULL  -- unix microseconds of the last probe, which exists to be written
);
INSERT INTO node (id, epoch, incarnation, probed) VALUES (1, 0, 0, 0);

-- What this node was allowed to do once. A row without result was begun and not ended.
CREATE TABLE jobs (
	run         TEXT NOT NULL,
	seq         BIGINT NOT NULL,
	try         BIGINT NOT NULL,
	operation   TEXT NOT NULL,
	digest      BYTEA NOT NULL,  -- SHA-256 of the delivery that was carried out
	incarnation BIGINT NOT NULL, -- of the runner that began it
	started     BIGINT NOT NULL, -- unix microseconds
	end_by      BIGINT NOT NULL, -- unix microseconds
	result      BYTEA,           -- CBOR of a writ.Result
	acked       BOOLEAN NOT NULL DEFAULT FALSE,
	PRIMARY KEY (run, seq, try)
);
CREATE INDEX jobs_unacknowledged ON jobs (end_by) WHERE result IS NOT NULL AND acked = FALSE;
CREATE INDEX jobs_end_by ON jobs (end_by);

-- Runs whose jobs are refused.
CREATE TABLE cancels (
	run   TEXT PRIMARY KEY,
	until BIGINT NOT NULL -- unix microseconds
);
