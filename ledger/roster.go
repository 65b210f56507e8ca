package ledger

import (
	"context"

	"writ"
	"writ/identity"
	"writ/identity/chain"
)

// Rosters stores every version of the roster forever, and the content of the newest version as rows that can be listed.
type Rosters interface {
	// AddRoster stores a verified roster with its signed bytes, and deletes the registrations of supervisors that the
	// roster names. A version that is already stored with the same bytes is ignored. Any other version that is not higher
	// than all stored versions is a CONFLICT. Versions may be skipped, as in a recovery.
	AddRoster(ctx context.Context, roster *identity.Roster, signed []byte) error
	// RosterLinks lists the versions above `after`, oldest first. It includes skipped versions, whose texts the ledger
	// does not have.
	RosterLinks(ctx context.Context, after int) ([]chain.Entry, error)
	// Roster returns the signed bytes of a version. The error is NOT_FOUND for a version without a text.
	Roster(ctx context.Context, version int) ([]byte, error)
	// Regions lists the regions of the newest roster by name.
	Regions(ctx context.Context) ([]Region, error)
	// Datacenters lists the datacenters of the newest roster by region and name.
	Datacenters(ctx context.Context) ([]Datacenter, error)
	// Projects lists the projects of the newest roster by name and id.
	Projects(ctx context.Context) ([]identity.Project, error)
}

// Region is a location of datacenters.
type Region struct {
	Name        string `json:"name"`
	Datacenters int    `json:"datacenters"` // number of datacenters in the region
}

// Datacenter is a datacenter as recorded in the roster.
type Datacenter struct {
	writ.Datacenter
	Key     string `json:"key"` // fingerprint of its supervisor's key, "SHA256:…"
	Enabled bool   `json:"enabled"`
}
