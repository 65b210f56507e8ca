-- +goose Up
-- The authentication codes of rows from which something follows: the database may belong to somebody else. Tables with a body have the code
-- in front of it. The supervisor gives codes to the rows that are there when it begins its next epoch, once.
ALTER TABLE tokens ADD COLUMN mac BYTEA;
ALTER TABLE secrets ADD COLUMN mac BYTEA;
ALTER TABLE statements ADD COLUMN mac BYTEA;
ALTER TABLE deployments ADD COLUMN mac BYTEA;
ALTER TABLE deliveries ADD COLUMN mac BYTEA;
ALTER TABLE results ADD COLUMN mac BYTEA;
