-- +goose Up
-- Containers reserve fractions of CPUs. The bodies of calls and resources stay: they have whole CPUs and hundredths.
ALTER TABLE calls RENAME COLUMN cpus TO cpu_hundredths;
ALTER TABLE resources RENAME COLUMN cpus TO cpu_hundredths;
ALTER TABLE loads RENAME COLUMN cpus TO cpu_hundredths;
UPDATE calls SET cpu_hundredths = cpu_hundredths * 100;
UPDATE resources SET cpu_hundredths = cpu_hundredths * 100;
UPDATE loads SET cpu_hundredths = cpu_hundredths * 100;
