package writ

// Answer is the supervisor's signed word on a text that somebody signed: what a statement did, or why a statement or submission was
// refused. A client believes this and nothing else.
type Answer struct {
	Cluster      ClusterID        `json:"cluster"`
	Datacenter   DatacenterID     `json:"datacenter"`
	Text         Digest           `json:"text"`              // SHA-256 of the text, without its signature
	Subject      string           `json:"subject"`           // as in the statement; "run/<id>" of a submission
	Done         string           `json:"done,omitempty"`    // what the statement did, in a sentence
	Refused      *Error           `json:"refused,omitempty"` // why nothing was done
	Runs         map[RunID]*Error `json:"runs,omitempty"`    // of a statement about several: nil for those to which it was done, otherwise why not
	Roster       int              `json:"roster"`            // the version by which it was decided
	RosterDigest Digest           `json:"roster_digest"`
	Time         int64            `json:"time"` // unix milliseconds
}

// Adoption is the supervisor's signed word on the roster that is in force in its datacenter.
type Adoption struct {
	Cluster    ClusterID    `json:"cluster"`
	Datacenter DatacenterID `json:"datacenter"`
	Roster     int          `json:"roster"` // version
	Digest     Digest       `json:"digest"`
	Nonce      []byte       `json:"nonce"` // of the client that asked, so that the answer is no older than the question
	Time       int64        `json:"time"`  // unix milliseconds
}

// ClientNonce is how many bytes the nonce of a client has.
const ClientNonce = 32
