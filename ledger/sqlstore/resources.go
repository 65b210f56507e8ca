package sqlstore

import (
	"context"
	"fmt"

	"writ"
	"writ/internal/sqldb"
	"writ/ledger"
)

// resourceTable holds copies of resources.
type resourceTable struct{ tables }

// selectResources adds the conditions of a filter.
func selectResources(q *query, filter ledger.ResourceFilter) {
	andIs(q, "datacenter", filter.Datacenter)
	andIs(q, "kind", filter.Kind)
	andIs(q, "name", filter.Name)
	andIs(q, "node", filter.Node)
	andIs(q, "deployment", filter.Deployment)
	andIn(q, "project", filter.Projects)
	if filter.Troubled {
		q.and("troubled = TRUE")
	}
}

// Resources lists resources.
func (s *resourceTable) Resources(
	ctx context.Context, filter ledger.ResourceFilter, p ledger.Page,
) (ledger.List[writ.Resource], error) {
	q, err := listResources(filter, p)
	if err != nil {
		return ledger.List[writ.Resource]{}, err
	}
	rows, err := s.db.Query(ctx, q.String(), q.args...)
	list, err := page(rows, err, limit(p), func(rows scanner) (r writ.Resource, key []any, err error) {
		var datacenter, project, kind, name, text string
		if err = rows.Scan(&datacenter, &project, &kind, &name, &text); err != nil {
			return r, nil, err
		}
		if err = decode(text, &r); err != nil {
			err = s.damage.row(err, "%s %s of project %s in datacenter %s", kind, name, project, datacenter)
		}
		return r, []any{datacenter, project, kind, name}, err
	})
	if err != nil {
		return list, fmt.Errorf("list resources: %w", err)
	}
	return list, nil
}

// listResources builds the query for a page of resources and one more row.
func listResources(filter ledger.ResourceFilter, p ledger.Page) (*query, error) {
	q := selectFrom(`SELECT datacenter, project, kind, name, body FROM resources`)
	selectResources(q, filter)
	if p.Cursor != "" {
		var datacenter, project, kind, name string
		if err := parseCursor(p.Cursor, &datacenter, &project, &kind, &name); err != nil {
			return nil, err
		}
		q.and("(datacenter, project, kind, name) > (?, ?, ?, ?)", datacenter, project, kind, name)
	}
	q.add("\nORDER BY datacenter, project, kind, name\nLIMIT ?", limit(p)+1)
	return q, nil
}

// CountResources counts resources by kind.
func (s *resourceTable) CountResources(
	ctx context.Context, filter ledger.ResourceFilter,
) (map[writ.ResourceKind]int, error) {
	q := selectFrom(`SELECT kind, COUNT(*) FROM resources`)
	selectResources(q, filter)
	q.add("\nGROUP BY kind")
	rows, err := s.db.Query(ctx, q.String(), q.args...)
	counts := map[writ.ResourceKind]int{}
	err = each(rows, err, func(row scanner) error {
		var kind writ.ResourceKind
		var n int
		err := row.Scan(&kind, &n)
		counts[kind] = n
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("count resources: %w", err)
	}
	return counts, nil
}

// Deployments lists the deployments that own resources.
func (s *resourceTable) Deployments(
	ctx context.Context, filter ledger.ResourceFilter, p ledger.Page,
) (ledger.List[ledger.Deployment], error) {
	q, err := listDeployments(filter, p)
	if err != nil {
		return ledger.List[ledger.Deployment]{}, err
	}
	rows, err := s.db.Query(ctx, q.String(), q.args...)
	list, err := page(rows, err, limit(p), func(rows scanner) (d ledger.Deployment, key []any, err error) {
		err = rows.Scan(&d.Datacenter, &d.Project, &d.Name, &d.Resources)
		return d, []any{d.Datacenter, d.Project, d.Name}, err
	})
	if err != nil {
		return list, fmt.Errorf("list deployments: %w", err)
	}
	return list, nil
}

// listDeployments builds the query for a page of deployments and one more row.
func listDeployments(filter ledger.ResourceFilter, p ledger.Page) (*query, error) {
	q := selectFrom(`SELECT datacenter, project, deployment, COUNT(*) FROM resources`)
	selectResources(q, filter)
	q.and("deployment <> ''")
	if p.Cursor != "" {
		var datacenter, project, name string
		if err := parseCursor(p.Cursor, &datacenter, &project, &name); err != nil {
			return nil, err
		}
		q.and("(datacenter, project, deployment) > (?, ?, ?)", datacenter, project, name)
	}
	q.add("\nGROUP BY datacenter, project, deployment\nORDER BY datacenter, project, deployment\nLIMIT ?", limit(p)+1)
	return q, nil
}

// storeResource stores or deletes a resource that withoutValues has put under its datacenter.
func storeResource(
	ctx context.Context, tx *sqldb.Tx, datacenter writ.DatacenterID, encoded encoded[writ.Resource],
) error {
	r := encoded.value
	if r.Deleted {
		err := tx.Queue(ctx, `
			DELETE FROM resources
			WHERE datacenter = $1 AND project = $2 AND kind = $3 AND name = $4`,
			string(datacenter), string(r.Project), string(r.Kind), r.Name)
		return err
	}
	err := tx.Queue(ctx, `
		INSERT INTO resources (datacenter, project, kind, name, node, deployment, troubled, body)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (datacenter, project, kind, name)
		DO UPDATE SET node = excluded.node, deployment = excluded.deployment, troubled = excluded.troubled,
			body = excluded.body`,
		string(datacenter), string(r.Project), string(r.Kind), r.Name, string(r.Node), r.Deployment, ledger.Troubled(r),
		encoded.json)
	return err
}
