-- +goose Up
-- What a call that is sent at once writes. Its newest delivery stands in its own row; deliveries has those that another one followed, and
-- all of earlier versions. And of the calls of a node there is an index of those that are not sent yet, beside the one of those that are:
-- a call that never waits is in one of them only.
DROP INDEX calls_on;
CREATE INDEX calls_placed ON calls (node, planned) WHERE open AND state = 'planned' AND node <> '';
