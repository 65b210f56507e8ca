-- +goose Up
-- id says what a supervisor says of itself, so that nobody takes the place of its registration with another proof. network is where it came
-- from: of the one that has most, a registration gives way when there is no room. Those of an earlier version are one network.
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
