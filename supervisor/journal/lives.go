package journal

import (
	"fmt"

	"writ"
	"writ/internal/cbor"
)

// Life holds the supervisor's observations of a node's machine. They are shown to people and affect no decision.
type Life struct {
	Node writ.NodeID `json:"node"`
	writ.HostFacts
}

// PutLife stores the observations of a node's machine.
func (tx *Tx) PutLife(l Life) error {
	body, err := cbor.Marshal(l)
	if err != nil {
		return fmt.Errorf("encode the facts about a machine: %w", err)
	}
	return tx.exec(`INSERT INTO lives (node, body) VALUES ($1, $2) ON CONFLICT (node) DO UPDATE SET body = excluded.body`,
		string(l.Node), body)
}

// Lives returns the observations of all nodes' machines. An unreadable row is omitted; its node reports the facts
// again.
func (tx *Tx) Lives() (all []Life, err error) {
	rows, err := tx.someRows(2, `SELECT node, body FROM lives ORDER BY node`)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		body, _ := row[1].([]byte)
		var l Life
		if cbor.Unmarshal(body, &l) == nil && row[0] == string(l.Node) {
			all = append(all, l)
		}
	}
	return all, nil
}
