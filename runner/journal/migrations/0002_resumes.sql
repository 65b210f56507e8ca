-- +goose Up
-- A run that is resumed after it was cancelled may go on: only its jobs from before are refused.
ALTER TABLE cancels ADD COLUMN resumes BIGINT NOT NULL DEFAULT 0;
