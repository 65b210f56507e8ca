-- +goose Up
-- Values that decide something carry a code, as rows of other tables do.
ALTER TABLE meta ADD COLUMN mac BYTEA;
