package stream

import (
	"bytes"
	"fmt"

	"writ/coord/api"
	"writ/ledger"
)

// note is an encoded event.
type note struct {
	event *ledger.Event // for filters
	text  []byte        // encoded message, read-only
}

// size estimates the memory of a note in bytes. A note holds the event both decoded and encoded.
func (n note) size() int { return 256 + 2*len(n.text) }

// noteOf encodes an event.
func noteOf(e ledger.Event) (note, error) {
	var text bytes.Buffer
	if _, err := (&api.Message{ID: e.ID, Event: viewOf(e)}).WriteTo(&text); err != nil {
		return note{}, fmt.Errorf("encode event %d: %w", e.ID, err)
	}
	return note{&e, text.Bytes()}, nil
}

// viewOf converts an event.
func viewOf(e ledger.Event) api.Event {
	v := api.Event{
		ID: e.ID, Datacenter: e.Datacenter, Topic: api.Topic(e.Topic()), Journal: e.Journal, Seq: e.Seq, Time: e.Time,
		Submission: e.Submission, Call: e.Call, Log: e.Log, Node: e.Node, Resource: e.Resource,
	}
	if e.Run != nil {
		run := api.RunOf(*e.Run, api.RunState(e.Run.State))
		v.Run = &run
	}
	return v
}
