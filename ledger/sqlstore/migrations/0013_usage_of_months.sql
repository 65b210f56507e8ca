-- +goose Up
-- Bills and pages are of months. month counts months from the year 0; first and last are the first and the last hour in which anything was used.
CREATE TABLE usage_of_months (
	month BIGINT NOT NULL,
	project TEXT NOT NULL,
	kind TEXT NOT NULL,
	name TEXT NOT NULL,
	uid TEXT NOT NULL,
	datacenter TEXT NOT NULL,
	first BIGINT NOT NULL,
	last BIGINT NOT NULL,
	cpu_seconds BIGINT NOT NULL,
	memory_mib_seconds BIGINT NOT NULL,
	disk_gib_seconds BIGINT NOT NULL,
	received BIGINT NOT NULL,
	sent BIGINT NOT NULL,
	PRIMARY KEY (month, project, kind, name, uid, datacenter)
);
-- An engine has no calendar that others have, too. The year is taken to begin in March, so that the day that leap years add is its last one: day counts
-- from 0000-03-01, and era is 400 years.
INSERT INTO usage_of_months (month, project, kind, name, uid, datacenter, first, last, cpu_seconds, memory_mib_seconds, disk_gib_seconds, received, sent)
SELECT 12 * (400 * era + year) + (5 * (day - (365 * year + year / 4 - year / 100)) + 2) / 153 + 2,
	project, kind, name, uid, datacenter, MIN(hour), MAX(hour), SUM(cpu_seconds), SUM(memory_mib_seconds), SUM(disk_gib_seconds), SUM(received), SUM(sent)
FROM (
	SELECT era, day, (day - day / 1460 + day / 36524 - day / 146096) / 365 AS year,
		project, kind, name, uid, datacenter, hour, cpu_seconds, memory_mib_seconds, disk_gib_seconds, received, sent
	FROM (
		SELECT (hour / 86400000000 + 719468) / 146097 AS era, (hour / 86400000000 + 719468) % 146097 AS day,
			project, kind, name, uid, datacenter, hour, cpu_seconds, memory_mib_seconds, disk_gib_seconds, received, sent
		FROM usage
	) AS days
) AS years
GROUP BY 1, 2, 3, 4, 5, 6;
