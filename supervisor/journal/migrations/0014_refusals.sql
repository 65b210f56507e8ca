-- +goose Up
-- What a supervisor has signed about texts that it refused: such a text stays refused, and its signer gets the same answer again. Of each
-- signer the newest are kept, as many as may be.
CREATE TABLE refusals (
	digest TEXT NOT NULL PRIMARY KEY,
	answer BYTEA NOT NULL,
	expires BIGINT NOT NULL,
	signer TEXT NOT NULL,
	size BIGINT NOT NULL,
	refused BIGINT NOT NULL,
	mac BYTEA
);
CREATE INDEX refusals_signer ON refusals (signer, refused, digest, size);
CREATE INDEX refusals_expires ON refusals (expires);

-- Statements are counted by signer, too. Those of an earlier version are nobody's.
ALTER TABLE statements ADD COLUMN signer TEXT NOT NULL DEFAULT '';
ALTER TABLE statements ADD COLUMN size BIGINT NOT NULL DEFAULT 0;
CREATE INDEX statements_signer ON statements (signer, size);
