-- +goose Up

-- The bytes of the events and copies of each datacenter, by the day on which they were stored. kind separates events
-- from copies of runs, because they are pruned at different ages; the sums of a day are deleted with its rows.
CREATE TABLE shares (
	datacenter TEXT NOT NULL,
	kind TEXT NOT NULL,
	day BIGINT NOT NULL,
	bytes BIGINT NOT NULL,
	PRIMARY KEY (datacenter, kind, day)
);
