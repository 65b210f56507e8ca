-- +goose Up

-- How many bytes of events and copies each datacenter has stored, by the day on which it did. A kind of rows goes when its rows are forgotten.
CREATE TABLE shares (
	datacenter TEXT NOT NULL,
	kind TEXT NOT NULL,
	day BIGINT NOT NULL,
	bytes BIGINT NOT NULL,
	PRIMARY KEY (datacenter, kind, day)
);
