-- +goose Up
-- Resources that are gone: their nodes tell afterwards what they used to the end, and only for what they had.
CREATE TABLE departed (
	uid TEXT NOT NULL,
	node TEXT NOT NULL,
	body BYTEA NOT NULL,
	gone BIGINT NOT NULL,
	PRIMARY KEY (uid, node)
);
CREATE INDEX departed_gone ON departed (gone);
