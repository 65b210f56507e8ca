package access

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"sync"
	"time"

	"writ"
	"writ/identity"
)

// challengeWithin is the validity of a challenge.
const challengeWithin = time.Minute

// challenges issues the nonces of logins. It does not store issued nonces. It stores used nonces until they expire.
type challenges struct {
	secret [32]byte // key of the nonces

	mu   sync.Mutex
	used map[string]time.Time
}

func newChallenges() *challenges {
	c := &challenges{used: map[string]time.Time{}}
	_, _ = rand.Read(c.secret[:]) // never fails
	return c
}

// nonce returns a challenge that needs no server state: the time, random bits, and a MAC of both and of the address in
// the client's request.
func (c *challenges) nonce(address string, now time.Time) []byte {
	n := make([]byte, 16, identity.NonceSize)
	binary.BigEndian.PutUint64(n, uint64(now.UnixMilli()))
	_, _ = rand.Read(n[8:])
	return append(n, c.mac(n, address)...)
}

func (c *challenges) mac(n []byte, address string) []byte {
	h := hmac.New(sha256.New, c.secret[:])
	h.Write(n)
	h.Write([]byte(address))
	return h.Sum(nil)[:identity.NonceSize-16]
}

// spend consumes a nonce. It returns an error unless the nonce was issued here for address, within challengeWithin, and
// is unused.
func (c *challenges) spend(n []byte, address string, now time.Time) error {
	stale := writ.Errorf(writ.CodeLoginRefused, "the challenge of this login is unknown, expired or already used").
		WithHint("log in again: writ login")
	if len(n) != identity.NonceSize || !hmac.Equal(n[16:], c.mac(n[:16], address)) {
		return stale
	}
	made := time.UnixMilli(int64(binary.BigEndian.Uint64(n)))
	if now.Sub(made) > challengeWithin || made.After(now.Add(time.Second)) {
		return stale
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.used, func(_ string, at time.Time) bool { return now.Sub(at) > 2*challengeWithin })
	if _, again := c.used[string(n)]; again {
		return stale
	}
	c.used[string(n)] = now
	return nil
}
