-- +goose Up

-- journal: the journal that last reported the run, '' if none has.
ALTER TABLE runs ADD COLUMN journal TEXT NOT NULL DEFAULT '';
CREATE INDEX runs_open ON runs (datacenter, id) WHERE ended = 0 AND accepted <> 0;

-- at: the time of the journal's last stored event, 0 if an earlier version stored the event.
ALTER TABLE journals ADD COLUMN at BIGINT NOT NULL DEFAULT 0;
