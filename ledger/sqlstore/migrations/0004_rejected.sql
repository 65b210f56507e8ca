-- +goose Up
-- Of each signer the newest submissions that were refused or expired are kept, and of none its text.
CREATE INDEX submissions_rejected ON submissions (signer, received, payload) WHERE state IN ('refused', 'expired');
