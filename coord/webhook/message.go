package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strconv"
	"strings"
	"time"

	"writ"
	"writ/identity/expiring"
	"writ/ledger"
)

// Type is the type of a message.
type Type string

// The types of messages.
const (
	RunEnded Type = "run.ended" // Data is a Run
	NodeLost Type = "node.lost" // Data is a Node
	NodeBack Type = "node.back" // Data is a Node that was lost and has sent a heartbeat again
	Expires  Type = "expires"   // Data is an Expiry
	Test     Type = "test"      // sent on request; Data is empty
)

// Types lists the types of messages.
var Types = []Type{RunEnded, NodeLost, NodeBack, Expires, Test}

func typesText() string {
	var all []string
	for _, t := range Types[:len(Types)-1] {
		all = append(all, string(t))
	}
	return strings.Join(all, ", ")
}

// Message is a message to an endpoint in the format of Standard Webhooks. The same occurrence always has the same id,
// however often and by however many coordinators it is sent.
type Message struct {
	ID        string    `json:"-"` // in a header
	Type      Type      `json:"type"`
	Timestamp time.Time `json:"timestamp"` // time of the occurrence
	Data      any       `json:"data"`
}

// Run is a run that has ended.
type Run struct {
	ID         writ.RunID     `json:"run"`
	State      ledger.State   `json:"state"`
	Datacenter string         `json:"datacenter"` // name
	Project    string         `json:"project"`    // name; several tenants may have a project of this name
	ProjectID  writ.ProjectID `json:"project_id"`
	Deployment string         `json:"deployment,omitempty"`
	Script     string         `json:"script"`
	Signer     string         `json:"signer"`
	Code       writ.Code      `json:"code,omitempty"` // error code if the run did not succeed
	Error      string         `json:"error,omitempty"`
	Hint       string         `json:"hint,omitempty"`
	Position   string         `json:"position,omitempty"` // in the script, "web.tengo:14:11"
	Started    time.Time      `json:"started,omitzero"`
	Ended      time.Time      `json:"ended,omitzero"`
	URL        string         `json:"url"` // page of the dashboard
}

// Node is a node that was lost, or that has sent a heartbeat again.
type Node struct {
	ID         writ.NodeID `json:"node"`
	Name       string      `json:"name"`
	Datacenter string      `json:"datacenter"` // name
	LastBeat   time.Time   `json:"last_beat,omitzero"`
	URL        string      `json:"url"`
}

// Expiry is an item that expires soon, or has expired.
type Expiry struct {
	What  string    `json:"what"` // "version 3 of the roster"
	At    time.Time `json:"at"`
	Ended bool      `json:"ended"`
	Renew string    `json:"renew"` // how to renew it
}

// newMessage returns a message whose id is derived from its type and from `about`.
func newMessage(t Type, at time.Time, data any, about ...string) *Message {
	sum := sha256.Sum256([]byte(strings.Join(append([]string{string(t)}, about...), "\x00")))
	return &Message{ID: "msg_" + hex.EncodeToString(sum[:16]), Type: t, Timestamp: at.UTC(), Data: data}
}

// moment formats a time as part of an id.
func moment(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// messageOf returns the message of an event, or nil. `lost` holds the last heartbeat of each lost node before this
// event, by nodeKey.
func (s *Sender) messageOf(e *ledger.Event, lost map[string]time.Time) *Message {
	switch {
	case e.Submission != nil &&
		(e.Submission.State == writ.SubmissionRefused || e.Submission.State == writ.SubmissionExpired):
		return s.neverBegan(e)
	case e.Run != nil && e.About != "" && e.Run.State.Ended() && !e.Run.LogsOnly:
		return s.runEnded(e)
	case e.Node != nil:
		return s.nodeChanged(e, lost)
	default:
		return nil
	}
}

// runEnded returns the message of a run that its datacenter has ended. A resumed run ends again, with another message.
// The project comes from the ledger, because the event of a datacenter could name another project.
func (s *Sender) runEnded(e *ledger.Event) *Message {
	r := e.Run
	data := &Run{
		ID: r.ID, State: ledger.State(r.State), Datacenter: s.DatacenterName(e.Datacenter), Project: s.ProjectName(e.Project),
		ProjectID: e.Project, Deployment: r.Deployment, Script: r.Script, Signer: r.Signer, Started: r.Started,
		Ended: r.Ended, URL: s.PublicURL + "/runs/" + string(r.ID),
	}
	if f := r.Failure; f != nil {
		data.Code, data.Error, data.Hint, data.Position = f.Code, f.Message, f.Hint, f.Position
	}
	return newMessage(RunEnded, e.Time, data, string(r.ID), string(r.State), moment(r.Ended))
}

// neverBegan returns the message of a submission that its datacenter refused, or that expired.
func (s *Sender) neverBegan(e *ledger.Event) *Message {
	in := e.Submission
	data := &Run{
		ID: in.Run, State: ledger.State(in.State), Datacenter: s.DatacenterName(in.Datacenter),
		Project: s.ProjectName(in.Project), ProjectID: in.Project, Script: in.Script, Signer: in.Signer, Ended: e.Time.UTC(),
		URL: s.PublicURL + "/runs/" + string(in.Run),
	}
	if in.Error != nil {
		data.Code, data.Error, data.Hint = in.Error.Code, in.Error.Message, in.Error.Hint
	}
	return newMessage(RunEnded, e.Time, data, string(in.Run), string(in.State))
}

// nodeChanged returns the message of a node that is lost or back, otherwise nil. Every change of a node produces an
// event with its complete state, so a lost node has several events. Events with the same last heartbeat are about the
// same loss, and their messages have the same id.
func (s *Sender) nodeChanged(e *ledger.Event, lost map[string]time.Time) *Message {
	n, key := e.Node, nodeKey(e.Datacenter, e.Node.ID)
	data := &Node{
		ID: n.ID, Name: n.Name, Datacenter: s.DatacenterName(e.Datacenter), LastBeat: n.LastBeat,
		URL: s.PublicURL + "/nodes/" + url.PathEscape(string(e.Datacenter)) + "/" + url.PathEscape(string(n.ID)),
	}
	since, was := lost[key]
	switch {
	case isLost(n):
		return newMessage(NodeLost, e.Time, data, key, moment(n.LastBeat))
	case isServing(n) && n.Liveness == writ.LivenessReady && was:
		return newMessage(NodeBack, e.Time, data, key, moment(since))
	default:
		return nil
	}
}

// isServing reports whether a node should be working. All other nodes were taken out of service deliberately.
func isServing(n *writ.Node) bool { return n.Admission == writ.AdmissionApproved && !n.Gone }

func isLost(n *writ.Node) bool { return isServing(n) && n.Liveness == writ.LivenessLost }

// nodeKey identifies a node. It includes the datacenter that sent the event, so a datacenter cannot report nodes of
// another datacenter.
func nodeKey(datacenter writ.DatacenterID, node writ.NodeID) string {
	return string(datacenter) + "/" + string(node)
}

// expiries returns the message of the latest due warning of each item. Its content depends on the warning, not on the
// time, so all coordinators send the same text. There is no message for an item that expired more than tellEnds ago:
// its expiry was probably intended.
func expiries(all []expiring.Item, now time.Time) (messages []*Message) {
	for _, e := range all {
		due := e.Due(now)
		if len(due) == 0 || now.Sub(e.At) > tellEnds {
			continue
		}
		data := &Expiry{What: e.What, At: e.At.UTC(), Ended: e.Ended(now), Renew: e.Renew}
		messages = append(messages, newMessage(Expires, due[len(due)-1], data, e.What, moment(e.At), strconv.Itoa(len(due))))
	}
	return messages
}

// tellEnds is how long an expired item is still reported.
const tellEnds = 24 * time.Hour
