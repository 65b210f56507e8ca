package journal

import (
	"fmt"

	"writ"
	"writ/internal/cbor"
	"writ/internal/sqldb"
)

// callRecord is the stored form of a call. Most writes of a datacenter are calls, and each call is written at least
// twice, so the form is compact. It has numbers instead of field names, bytes instead of hex digits, and microseconds
// since 1970 instead of texts. The number of a field is never reused.
type callRecord struct {
	Run       writ.RunID        `cbor:"1,keyasint"`
	Seq       int               `cbor:"2,keyasint"`
	Operation string            `cbor:"3,keyasint"`
	Kind      writ.ResourceKind `cbor:"4,keyasint,omitempty"`
	Name      string            `cbor:"5,keyasint,omitempty"`
	Position  string            `cbor:"6,keyasint,omitempty"`
	State     writ.CallState    `cbor:"7,keyasint"`
	Node      writ.NodeID       `cbor:"8,keyasint,omitempty"`
	NodeName  string            `cbor:"9,keyasint,omitempty"`
	Driver    string            `cbor:"10,keyasint,omitempty"`
	Simulated bool              `cbor:"11,keyasint,omitempty"`
	Change    writ.Change       `cbor:"12,keyasint,omitempty"`
	Attempt   int               `cbor:"13,keyasint"`
	Delivery  int               `cbor:"14,keyasint,omitempty"`
	After     []int             `cbor:"15,keyasint,omitempty"`
	Error     *writ.Error       `cbor:"16,keyasint,omitempty"`
	Reason    string            `cbor:"17,keyasint,omitempty"` // a sentence; only in records of earlier versions
	Planned   int64             `cbor:"18,keyasint,omitempty"`
	Queued    int64             `cbor:"19,keyasint,omitempty"`
	Started   int64             `cbor:"20,keyasint,omitempty"`
	Ended     int64             `cbor:"21,keyasint,omitempty"`

	Hash          []byte           `cbor:"22,keyasint,omitempty"`
	Project       writ.ProjectID   `cbor:"23,keyasint,omitempty"`
	UID           writ.UID         `cbor:"24,keyasint,omitempty"`
	Args          map[string]any   `cbor:"25,keyasint,omitempty"`
	Options       writ.CallOptions `cbor:"26,keyasint,omitzero"`
	Need          writ.Capacity    `cbor:"27,keyasint,omitzero"`
	Orders        []int            `cbor:"28,keyasint,omitempty"`
	Values        map[string]any   `cbor:"29,keyasint,omitempty"`
	Claimed       bool             `cbor:"30,keyasint,omitempty"`
	Ready         bool             `cbor:"31,keyasint,omitempty"`
	RetryAt       int64            `cbor:"32,keyasint,omitempty"`
	StartBy       int64            `cbor:"33,keyasint,omitempty"`
	EndBy         int64            `cbor:"34,keyasint,omitempty"`
	Before        int              `cbor:"35,keyasint,omitempty"`
	KnownFailures int              `cbor:"36,keyasint,omitempty"`
	Spared        int              `cbor:"37,keyasint,omitempty"`
	Late          *writ.Result     `cbor:"38,keyasint,omitempty"`
	Sent          *sentRecord      `cbor:"39,keyasint,omitempty"`
	Answer        *answerRecord    `cbor:"40,keyasint,omitempty"`
	Aside         bool             `cbor:"41,keyasint,omitempty"`
	Moved         int              `cbor:"42,keyasint,omitempty"`
	Read          string           `cbor:"43,keyasint,omitempty"`

	Withdrawn int  `cbor:"44,keyasint,omitempty"`
	KeptBack  bool `cbor:"45,keyasint,omitempty"`

	Why writ.Reason `cbor:"46,keyasint,omitzero"`
}

// sentRecord is the stored form of a Delivery.
type sentRecord struct {
	_        struct{} `cbor:",toarray"`
	Attempt  int
	Delivery int
	Node     writ.NodeID // "" if equal to the call's node
	Job      []byte
	Epoch    int64
	At       int64
}

// answerRecord is the stored form of an Answer.
type answerRecord struct {
	_       struct{} `cbor:",toarray"`
	Attempt int
	Frame   []byte
}

// encodeCall returns the body of a call's row.
func encodeCall(c *Call) ([]byte, error) {
	r := callRecord{
		Run: c.Run, Seq: c.Seq, Operation: c.Operation, Kind: c.Kind, Name: c.Name, Position: c.Position, State: c.State,
		Node: c.Node, NodeName: c.NodeName, Driver: c.Driver, Simulated: c.Simulated, Change: c.Change, Attempt: c.Attempt,
		Delivery: c.Delivery, After: c.After, Error: c.Error, Why: c.Why, Planned: sqldb.Micros(c.Planned),
		Queued: sqldb.Micros(c.Queued), Started: sqldb.Micros(c.Started), Ended: sqldb.Micros(c.Ended), Hash: c.Hash[:],
		Project: c.Project, UID: c.UID, Args: c.Args, Options: c.Options, Need: c.Need, Orders: c.Orders, Values: c.Values,
		Claimed: c.Claimed, Ready: c.Ready, RetryAt: sqldb.Micros(c.RetryAt), StartBy: sqldb.Micros(c.StartBy),
		EndBy: sqldb.Micros(c.EndBy), Before: c.Before, KnownFailures: c.KnownFailures, Spared: c.Spared, Late: c.Late,
		Aside: c.Aside, Moved: c.Moved, Read: c.Read, Withdrawn: c.Withdrawn, KeptBack: c.KeptBack,
	}
	if d := c.Sent; d != nil {
		r.Sent = &sentRecord{
			Attempt: d.Attempt, Delivery: d.Delivery, Node: d.Node, Job: d.Job[:], Epoch: d.Epoch, At: sqldb.Micros(d.At),
		}
		if d.Node == c.Node {
			r.Sent.Node = ""
		}
	}
	if a := c.Answered; a != nil {
		r.Answer = &answerRecord{Attempt: a.Attempt, Frame: a.Frame[:]}
	}
	body, err := cbor.Marshal(&r)
	if err != nil {
		return nil, fmt.Errorf("encode call: %w", err)
	}
	return body, nil
}

// decodeCall returns the call of a row's body.
func decodeCall(body []byte) (*Call, error) {
	r, err := decode[callRecord](body)
	if err != nil {
		return nil, err
	}
	c := &Call{
		Call: writ.Call{
			Run: r.Run, Seq: r.Seq, Operation: r.Operation, Kind: r.Kind, Name: r.Name, Position: r.Position, State: r.State,
			Node: r.Node, NodeName: r.NodeName, Driver: r.Driver, Simulated: r.Simulated, Change: r.Change, Attempt: r.Attempt,
			Delivery: r.Delivery, After: r.After, Error: r.Error, Why: storedReason(r.Why, r.Reason, r.NodeName),
			Planned: sqldb.Time(r.Planned), Queued: sqldb.Time(r.Queued), Started: sqldb.Time(r.Started),
			Ended: sqldb.Time(r.Ended),
			EndBy: sqldb.Time(r.EndBy),
		},
		Project: r.Project, UID: r.UID, Args: r.Args, Options: r.Options, Need: r.Need, Orders: r.Orders, Values: r.Values,
		Claimed: r.Claimed, Ready: r.Ready, RetryAt: sqldb.Time(r.RetryAt), StartBy: sqldb.Time(r.StartBy), Before: r.Before,
		KnownFailures: r.KnownFailures, Spared: r.Spared, Late: r.Late, Aside: r.Aside, Moved: r.Moved, Read: r.Read,
		Withdrawn: r.Withdrawn, KeptBack: r.KeptBack,
	}
	if err := setDigest(&c.Hash, r.Hash); err != nil {
		return nil, err
	}
	if s := r.Sent; s != nil {
		c.Sent = &Delivery{Attempt: s.Attempt, Delivery: s.Delivery, Node: s.Node, Epoch: s.Epoch, At: sqldb.Time(s.At)}
		if s.Node == "" {
			c.Sent.Node = c.Node
		}
		if err := setDigest(&c.Sent.Job, s.Job); err != nil {
			return nil, err
		}
	}
	if a := r.Answer; a != nil {
		c.Answered = &Answer{Attempt: a.Attempt}
		if err := setDigest(&c.Answered.Frame, a.Frame); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// storedReason returns the reason of a row. Rows of earlier versions of writ have a sentence instead of a code. The
// supervisor compares only the codes about lost nodes, so storedReason recognizes only their sentences. Any other
// sentence becomes the text of a ReasonText.
func storedReason(why writ.Reason, text, node string) writ.Reason {
	if text == "" || !why.IsZero() {
		return why
	}
	for _, code := range []writ.ReasonCode{writ.ReasonLostNode, writ.ReasonLostWord} {
		if r := (writ.Reason{Code: code, Node: node}); r.String() == text {
			return r
		}
	}
	return writ.Reason{Code: writ.ReasonText, Text: text}
}

func setDigest(d *writ.Digest, sum []byte) error {
	if len(sum) != len(d) {
		return fmt.Errorf("a digest has %d bytes", len(sum))
	}
	copy(d[:], sum)
	return nil
}
