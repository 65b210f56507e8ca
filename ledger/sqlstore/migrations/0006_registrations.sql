-- +goose Up
-- id is the digest of all fields that the supervisor sent, so that a registration with another proof does not replace
-- it. network is the network of its sender: if there are too many registrations, the network with the most loses one.
-- Registrations of an earlier version count as one network.
CREATE TABLE registrations_by_id (
	id TEXT PRIMARY KEY,
	key_text TEXT NOT NULL,
	token TEXT NOT NULL,
	name TEXT NOT NULL,
	nonce BYTEA NOT NULL,
	proof BYTEA NOT NULL,
	url TEXT NOT NULL,
	network TEXT NOT NULL,
	received BIGINT NOT NULL
);
INSERT INTO registrations_by_id (id, key_text, token, name, nonce, proof, url, network, received)
	SELECT key_text || ' ' || token, key_text, token, name, nonce, proof, url, '', received FROM registrations;
DROP TABLE registrations;
ALTER TABLE registrations_by_id RENAME TO registrations;
