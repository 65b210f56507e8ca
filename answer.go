package writ

// Answer is a supervisor's signed answer to a signed text: its effect or its refusal. Clients accept no other proof.
type Answer struct {
	Cluster      ClusterID        `json:"cluster"`
	Datacenter   DatacenterID     `json:"datacenter"`
	Text         Digest           `json:"text"`              // SHA-256 of the text, without its signature
	Subject      string           `json:"subject"`           // as in the statement; "run/<id>" for a submission
	Done         string           `json:"done,omitempty"`    // the effect of the statement, as a sentence
	Refused      *Error           `json:"refused,omitempty"` // the reason if the text was refused
	Runs         map[RunID]*Error `json:"runs,omitempty"`    // by run: nil for success
	Roster       int              `json:"roster"`            // version of the roster in force at the decision
	RosterDigest Digest           `json:"roster_digest"`
	Time         int64            `json:"time"` // unix milliseconds
}

// Adoption is a supervisor's signed statement of the roster that is in force in its datacenter.
type Adoption struct {
	Cluster    ClusterID    `json:"cluster"`
	Datacenter DatacenterID `json:"datacenter"`
	Roster     int          `json:"roster"` // version
	Digest     Digest       `json:"digest"`
	Nonce      []byte       `json:"nonce"` // from the request; proves that the answer is not older than the request
	Time       int64        `json:"time"`  // unix milliseconds
}

// ClientNonce is the length of a client's nonce in bytes.
const ClientNonce = 32
