package sqlstore

import (
	"context"

	"writ"
	"writ/internal/sqldb"
	"writ/ledger"
)

// nodeTable holds copies of nodes.
type nodeTable struct{ tables }

// Nodes lists nodes.
func (s *nodeTable) Nodes(
	ctx context.Context, filter ledger.NodeFilter, p ledger.Page,
) (ledger.List[writ.Node], error) {
	q := selectFrom(`SELECT datacenter, name, id, body FROM nodes`)
	andIs(q, "datacenter", filter.Datacenter)
	andIn(q, "id", filter.Nodes)
	andIn(q, "name", filter.Names)
	if filter.Admission != "" {
		q.and("admission = ?", string(filter.Admission))
	} else {
		q.and("admission <> ?", string(writ.AdmissionRemoved))
	}
	if p.Cursor != "" {
		var datacenter, name, id string
		if err := parseCursor(p.Cursor, &datacenter, &name, &id); err != nil {
			return ledger.List[writ.Node]{}, err
		}
		q.and("(datacenter, name, id) > (?, ?, ?)", datacenter, name, id)
	}
	n := limit(p)
	q.add("\nORDER BY datacenter, name, id\nLIMIT ?", n+1)
	rows, err := s.db.Query(ctx, q.String(), q.args...)
	return page(rows, err, n, func(rows scanner) (node writ.Node, key []any, err error) {
		var datacenter, name, id, text string
		if err = rows.Scan(&datacenter, &name, &id, &text); err != nil {
			return node, nil, err
		}
		if err = decode(text, &node); err != nil {
			err = s.damage.row(err, "node %s of datacenter %s", id, datacenter)
		}
		return node, []any{datacenter, name, id}, err
	})
}

// storeNode stores a node that withoutValues has put under its datacenter.
func storeNode(ctx context.Context, tx *sqldb.Tx, datacenter writ.DatacenterID, encoded encoded[writ.Node]) error {
	node := encoded.value
	err := tx.Queue(ctx, `
		INSERT INTO nodes (datacenter, id, name, admission, body)
		VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (datacenter, id) DO UPDATE SET name = excluded.name, admission = excluded.admission, body = excluded.body`,
		string(datacenter), string(node.ID), node.Name, string(node.Admission), encoded.json)
	return err
}
