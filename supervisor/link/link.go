// Package link carries frames between a coordinator and the supervisors that dial it. A challenge and a proof come
// first. Then requests and answers follow in both directions, and the events of the datacenter, in order and once each.
// It does not depend on the meaning of the verbs.
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
	// VerbTokenStanding asks for the signed list of VerbTokens.
	VerbTokenStanding Verb = "token-standing"
	VerbHolds         Verb = "holds"
	// VerbHoldStanding asks for the signed part of the list of VerbHolds that a person may see.
	VerbHoldStanding Verb = "hold-standing"
	VerbNodeLog      Verb = "node-log"
	VerbBoots        Verb = "boots"
	VerbLoads        Verb = "loads"
)

// Verbs by answering side. A request with any other verb is refused before its parameters are decoded.
var (
	ToSupervisor = []Verb{
		VerbSubmit, VerbStatement, VerbRoster, VerbPlan, VerbLogs, VerbValues, VerbQueues, VerbResources, VerbSecrets,
		VerbNodes, VerbAdopted, VerbStanding, VerbCertificates, VerbTokens, VerbBatches, VerbNodeStanding, VerbTokenStanding,
		VerbHolds, VerbHoldStanding, VerbNodeLog,
		VerbBoots, VerbLoads,
	}
	ToCoordinator = []Verb{VerbRoster}
)

// Hello is the supervisor's answer to the challenge. Signature is made with the datacenter's key in the roster. It
// covers "writ-link-v1\0", then the nonce, the coordinator's URL, the datacenter and the journal, each prefixed with
// its length.
type Hello struct {
	Datacenter writ.DatacenterID `json:"datacenter"`
	Journal    string            `json:"journal"`
	Version    string            `json:"version"`
	Verbs      []Verb            `json:"verbs"`
	Epoch      int64             `json:"epoch"`
	Roster     int               `json:"roster"` // version
	// Binary reports whether the supervisor reads requests in binary messages. The Dialer sets it; earlier versions do
	// not.
	Binary bool `json:"binary,omitempty"`
	// Restored is when the supervisor found that its journal is a backup, or a copy without its newest records. It is
	// zero if that never happened, or if the supervisor is of an earlier version.
	Restored  time.Time `json:"restored,omitzero"`
	Signature []byte    `json:"signature"`
}

// Welcome ends the handshake.
type Welcome struct {
	Session string `json:"session"`
	// Roster is the version of the coordinator's roster; the supervisor then requests or offers missing versions.
	Roster       int       `json:"roster"`
	Coordinators []string  `json:"coordinators"` // other coordinators to connect to
	Ack          int64     `json:"ack"`          // last event of this journal that the coordinator has
	At           time.Time `json:"at,omitzero"`  // time of that event
}

// Handler answers requests of the other side. It decodes params with Decode: they may be JSON or bytes. An error is sent as its code, message and retryability.
type Handler func(ctx context.Context, verb Verb, params json.RawMessage) (any, error)

// EventSource supplies the events of a supervisor's link to one coordinator.
type EventSource interface {
	// Agree returns nil if a coordinator that has the events of journal up to seq can receive the following events. `at`
	// is the time of event seq. It returns an error if one of the two stores came from a backup. A new generation then
	// begins for this coordinator, under a new ID.
	Agree(ctx context.Context, journal string, seq int64, at time.Time) error
	// EncodedEvents returns at most max events after a sequence number, in order, and the ID of their journal. It waits
	// until such an event exists or ctx ends.
	EncodedEvents(ctx context.Context, after int64, max int) (journal string, events []writ.EncodedEvent, err error)
	// Acknowledge records that the coordinator has stored all events up to seq.
	Acknowledge(ctx context.Context, seq int64) error
}

// EventSink stores the events of a coordinator's links.
type EventSink interface {
	// LastEvent returns the sequence number and time of the last stored event of a journal, or 0 without events.
	LastEvent(ctx context.Context, datacenter writ.DatacenterID, journal string) (seq int64, at time.Time, err error)
	// StoreEvents stores consecutive events in one transaction. It skips events that are already stored.
	StoreEvents(ctx context.Context, datacenter writ.DatacenterID, events []writ.Event) error
}
