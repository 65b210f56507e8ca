-- +goose Up

-- journal: which of its datacenter's journals told of the run last, '' if none did yet
ALTER TABLE runs ADD COLUMN journal TEXT NOT NULL DEFAULT '';
CREATE INDEX runs_open ON runs (datacenter, id) WHERE ended = 0 AND accepted <> 0;

-- at: when the last stored event of the journal took place, 0 if that was not kept
ALTER TABLE journals ADD COLUMN at BIGINT NOT NULL DEFAULT 0;
