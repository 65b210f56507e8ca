-- +goose Up
-- What a call did that was given up may be there under its name: the next one that makes it must find out whose it is.
CREATE INDEX calls_left ON calls (project, kind, name, planned) WHERE NOT open AND state <> 'succeeded' AND node <> '' AND kind <> '';
