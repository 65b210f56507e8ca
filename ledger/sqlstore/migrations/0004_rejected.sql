-- +goose Up
-- The ledger keeps only the newest rejected submissions of each signer, without their texts.
CREATE INDEX submissions_rejected ON submissions (signer, received, payload) WHERE state IN ('refused', 'expired');
