package stream

import (
	"writ/coord/api"
	"writ/ledger"
)

// note is an event as a message of a stream.
type note struct {
	event ledger.EncodedEvent // for filters; without JSON, which is part of text
	text  []byte              // read-only
}

// size estimates the memory of a note in bytes.
func (n *note) size() int { return 256 + len(n.text) }

// noteOf returns the message of an event. All streams send the same bytes: the JSON that the ledger stored, and the
// topic.
func noteOf(e ledger.EncodedEvent) (note, error) {
	text, err := api.EncodedMessage(e.ID, api.Topic(e.Topic), e.JSON)
	e.JSON = ""
	return note{e, text}, err
}
