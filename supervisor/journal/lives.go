package journal

import (
	"fmt"

	"writ"
	"writ/internal/cbor"
)

// Life is what a supervisor has seen of the machine of a node. It is shown to people, and nothing follows from it.
type Life struct {
	Node     writ.NodeID `json:"node"`
	Boot     string      `json:"boot,omitempty"`
	Restarts int         `json:"restarts,omitempty"`
	Host     *writ.Host  `json:"host,omitempty"`
	// Online is how long it was heard in each month.
	Online []writ.Online `json:"online,omitempty"`
}

// PutLife keeps what is known of the machine of a node.
func (tx *Tx) PutLife(l Life) error {
	body, err := cbor.Marshal(l)
	if err != nil {
		return fmt.Errorf("encode what is known of a machine: %w", err)
	}
	return tx.exec(`INSERT INTO lives (node, body) VALUES ($1, $2) ON CONFLICT (node) DO UPDATE SET body = excluded.body`, string(l.Node), body)
}

// Lives returns what is known of the machines of all nodes. A row that cannot be read is left out: its node says it again.
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
