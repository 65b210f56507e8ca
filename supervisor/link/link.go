// Package link carries frames between a coordinator and the supervisors that dial it: a challenge and a proof, then requests and
// answers in both directions, and the events of the datacenter, once and in order. It must not know what the verbs mean.
package link

import (
	"context"
	"encoding/json"
	"time"

	"writ"
)

// Verb names a request.
type Verb string

// The verbs.
const (
	VerbSubmit    Verb = "submit"
	VerbStatement Verb = "statement"
	VerbRoster    Verb = "roster"
	VerbPlan      Verb = "plan"
	VerbLogs      Verb = "logs"
	VerbValues    Verb = "values"
	VerbQueues    Verb = "queues"
	VerbResources Verb = "resources"
	VerbSecrets   Verb = "secrets"
	VerbNodes     Verb = "nodes"
	VerbAdopted   Verb = "adopted"
	VerbStanding  Verb = "standing"
	VerbTokens    Verb = "tokens"
	VerbBatches   Verb = "batches"

	VerbCertificates Verb = "certificates"
	VerbNodeStanding Verb = "node-standing"
	// VerbTokenStanding asks for the list that VerbTokens gives, signed.
	VerbTokenStanding Verb = "token-standing"
	VerbHolds         Verb = "holds"
	// VerbHoldStanding asks for the part of the list that VerbHolds gives which a person may see, signed.
	VerbHoldStanding Verb = "hold-standing"
	VerbNodeLog      Verb = "node-log"
	VerbBoots        Verb = "boots"
)

// Which side answers which verbs. A request with any other verb is refused before its parameters are read.
var (
	ToSupervisor = []Verb{
		VerbSubmit, VerbStatement, VerbRoster, VerbPlan, VerbLogs, VerbValues, VerbQueues, VerbResources, VerbSecrets, VerbNodes, VerbAdopted, VerbStanding,
		VerbCertificates, VerbTokens, VerbBatches, VerbNodeStanding, VerbTokenStanding, VerbHolds, VerbHoldStanding, VerbNodeLog,
		VerbBoots,
	}
	ToCoordinator = []Verb{VerbRoster}
)

// Hello is the supervisor's first word after the challenge. Signature is by its key in the roster over
// "writ-link-v1\0" and, each behind its length, nonce, coordinator's URL, datacenter and journal.
type Hello struct {
	Datacenter writ.DatacenterID `json:"datacenter"`
	Journal    string            `json:"journal"`
	Version    string            `json:"version"`
	Verbs      []Verb            `json:"verbs"`
	Epoch      int64             `json:"epoch"`
	Roster     int               `json:"roster"` // version
	Signature  []byte            `json:"signature"`
}

// Welcome ends the handshake.
type Welcome struct {
	Session      string    `json:"session"`
	Roster       int       `json:"roster"`       // the coordinator's version; the other side asks for, or offers, what is missing
	Coordinators []string  `json:"coordinators"` // other addresses to keep a link to
	Ack          int64     `json:"ack"`          // the last event of this journal that the coordinator has
	At           time.Time `json:"at,omitzero"`  // when that took place
}

// Handler answers requests of the other side. An answer that is an error is sent as its code, message and retryability.
type Handler func(ctx context.Context, verb Verb, params json.RawMessage, progress func(stage, detail string)) (any, error)

// EventSource is where a supervisor's end of the link to one coordinator takes events from.
type EventSource interface {
	// Agree returns nil if the rest can be told to a coordinator that has the events of a journal up to seq, the last of which took place
	// at a time. It cannot if one of the two stores came from a backup; then a new generation begins for this coordinator, under a new id, and
	// the error says so.
	Agree(ctx context.Context, journal string, seq int64, at time.Time) error
	// EncodedEvents returns at most max events after a sequence number, in order, and the id of their journal, waiting until there is one or
	// ctx ends.
	EncodedEvents(ctx context.Context, after int64, max int) (journal string, events []writ.EncodedEvent, err error)
	// Acknowledge tells that the coordinator has stored everything up to seq.
	Acknowledge(ctx context.Context, seq int64) error
}

// EventSink is where a coordinator's end of the link puts events.
type EventSink interface {
	// LastEvent returns the sequence number of the last stored event of a journal and when it took place, 0 if there is none.
	LastEvent(ctx context.Context, datacenter writ.DatacenterID, journal string) (seq int64, at time.Time, err error)
	// StoreEvents stores consecutive events in one transaction. Those that it has already it passes over.
	StoreEvents(ctx context.Context, datacenter writ.DatacenterID, events []writ.Event) error
}
