-- +goose Up
-- Bills and pages show the usage of months. month is the number of months since the year 0; first and last are the
-- first and the last hour with usage.
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
-- SQLite and PostgreSQL have no calendar function in common, so this computes months from days. Years start in March,
-- so that the leap day is the last day of a year. An era is 400 years, the first one starts at 0000-03-01, and day
-- counts the days of an era.
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
