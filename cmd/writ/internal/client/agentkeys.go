package client

import (
	"errors"
	"time"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/identity"
)

// firstUsable returns the first key that wanted accepts, or nil. A nil wanted accepts all. An agent keeps certificates
// after they expire, so a key that can sign now comes before them.
func firstUsable(keys []identity.AgentKey, wanted func(ssh.PublicKey) bool, now time.Time) ssh.PublicKey {
	var outdated ssh.PublicKey
	for _, k := range keys {
		switch {
		case wanted != nil && !wanted(k.Key):
		case !isOutdated(k.Key, now):
			return k.Key
		case outdated == nil:
			outdated = k.Key
		}
	}
	return outdated
}

// isOutdated reports whether a key is a certificate that is not valid at now.
func isOutdated(key ssh.PublicKey, now time.Time) bool {
	cert, ok := key.(*ssh.Certificate)
	seconds := uint64(max(0, now.Unix()))
	return ok && (seconds < cert.ValidAfter || seconds >= cert.ValidBefore)
}

// noUsableKey returns the error for an agent with n keys of accepted types, none of which can sign.
func noUsableKey(socket string, n int) error {
	if n == 0 {
		return writ.Errorf(writ.CodeKeyUnusable, "the ssh-agent at %s lists no ed25519 key", socket).
			WithHint("add one with ssh-add; `ssh-add -X` unlocks a locked agent, which lists no keys; or name a key file with --key")
	}
	return writ.Errorf(writ.CodeKeyUnusable, "the ssh-agent holds none of the keys that could sign here").
		WithHint("`ssh-add -l` lists its keys; add a key with ssh-add, or name a key file with --key")
}

// isAgentAway reports whether the agent could not be asked.
func isAgentAway(err error) bool { return errors.Is(err, errAgentMute) || errors.Is(err, errAgentGone) }

// unknownBesideAgent returns the error for an unknown key in the default file. The agent that could not be asked may
// hold a known one.
func unknownBesideAgent(key *Key, agentErr error) error {
	return writ.Errorf(writ.CodeSignerUnknown, "the roster does not know the key %s, and %w", key.Spec, agentErr).
		WithHint("%s", writ.AsError(agentErr).Hint)
}
