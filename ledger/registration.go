package ledger

import (
	"context"
	"fmt"
	"time"

	"writ"
)

// MaxRegistrations limits the supervisors that wait for a place in the roster. A registration needs no right, so the
// number must be bounded.
const MaxRegistrations = 100

// Registrations stores the supervisors that wait for a place in the roster.
type Registrations interface {
	// AddRegistration stores a registration. A repeated registration is stored once. No registration replaces another:
	// the same key and token with another proof is a separate registration. If more than MaxRegistrations wait, the
	// network with the most registrations loses one: its oldest registration without a proof, or its oldest registration
	// if all have a proof. If that is the new registration, the error is RATE_LIMITED.
	AddRegistration(ctx context.Context, registration Registration) error
	// Registrations lists the waiting registrations, oldest first.
	Registrations(ctx context.Context) ([]Registration, error)
	// RemoveRegistrations deletes the registrations received before a time.
	RemoveRegistrations(ctx context.Context, before time.Time) error
}

// Registration is a supervisor's request for a place in the roster. The ledger does not verify its content. The
// operator who adds the key to the roster checks the proof with the token.
type Registration struct {
	Token    string // id of the token, "" if none
	Name     string // requested name of the datacenter
	Key      []byte // ed25519 public key of the supervisor
	Nonce    []byte // 32 random bytes
	Proof    []byte // proof of the token over identity.RegistrationText
	URL      string // address for the supervisor's nodes, "" if not given
	Network  string // network of origin, set by the caller like Received
	Received time.Time
}

// ID returns a digest of the supervisor's own fields, without Network and Received.
func (r Registration) ID() writ.Digest {
	return writ.DigestOf(fmt.Appendf(nil, "%q %q %x %x %x %q", r.Token, r.Name, r.Key, r.Nonce, r.Proof, r.URL))
}
