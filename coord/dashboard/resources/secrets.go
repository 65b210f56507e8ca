package resources

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"writ"
	"writ/coord/api"
	"writ/coord/dashboard/page"
	"writ/coord/dashboard/snapshot"
	"writ/coord/dashboard/widget"
	"writ/identity"
	"writ/internal/hidden"
)

const (
	maxSecrets   = 100
	afterSecrets = "after-secret" // number of secrets on the previous pages
)

// secrets is the page of the secrets of projects: their names and versions, never their values. Each load of the page
// requests them from the datacenters, because the coordinator stores no secrets.
func (d *Pages) secrets(ctx context.Context, r *http.Request, _ bool) (*page.Page, error) {
	q := r.URL.Query()
	reader := d.Reader(ctx)
	projects, err := reader.Selects(writ.ProjectID(q.Get("project")))
	if err != nil {
		return nil, err
	}
	after, err := strconv.Atoi(cmp.Or(q.Get(afterSecrets), "0"))
	if err != nil || after < 0 {
		return nil, writ.Errorf(writ.CodeBadRequest, "%s is not a number", afterSecrets)
	}
	now, err := d.Now(ctx)
	if err != nil {
		return nil, err
	}
	data := secretsPage{listPage: listPage{Selection: d.SelectionOf(ctx, now, q), All: "/secrets"}}
	answers, err := d.LiveView.Secrets(ctx, data.Datacenter, projects)
	if err != nil {
		return nil, err
	}
	var rows []secretRow
	for _, dc := range answers {
		if dc.Error != nil {
			data.Silent = append(data.Silent, silentDatacenter{hidden.Escape(dc.Name), hidden.Escape(dc.Error.Message)})
		}
		rows = append(rows, secretRowsOf(dc, now)...)
	}
	data.N = len(rows)
	rows = rows[min(after, len(rows)):]
	if len(rows) > maxSecrets {
		rows = rows[:maxSecrets]
		data.Next = page.Address(r.URL, afterSecrets, strconv.Itoa(after+maxSecrets))
	}
	data.Rows, data.First = rows, page.FirstOf(r.URL, afterSecrets)
	data.Command = setCommand(reader, data.Project, now)
	return &page.Page{Title: "Secrets", Nav: "secrets", Body: data}, nil
}

// secretsPage is the body of the page.
type secretsPage struct {
	listPage
	N           int // versions on all pages
	Rows        []secretRow
	Silent      []silentDatacenter // datacenters that did not answer
	Command     string             // command that sets a secret, "" if the reader may not set one
	First, Next string
}

type silentDatacenter struct{ Name, Why string }

// secretRow is a version of a secret.
type secretRow struct {
	Name, SetBy                 string
	Version                     int
	ProjectName, DatacenterName string
	Set, Removed                time.Time
}

// secretRowsOf returns the secrets of a datacenter by project and name, the newest version of each first.
func secretRowsOf(dc api.DatacenterSecrets, now *snapshot.Snapshot) []secretRow {
	rows := make([]secretRow, len(dc.Secrets))
	for i, s := range dc.Secrets {
		rows[i] = secretRow{
			Name: widget.Cut(s.Name, widget.MaxValue), SetBy: widget.Cut(s.SetBy, widget.MaxValue), Version: s.Version,
			ProjectName: now.ProjectName(s.Project), DatacenterName: hidden.Escape(dc.Name), Set: s.Set, Removed: s.Removed,
		}
	}
	slices.SortStableFunc(rows, func(a, b secretRow) int {
		return cmp.Or(cmp.Compare(a.ProjectName, b.ProjectName), cmp.Compare(a.Name, b.Name),
			cmp.Compare(b.Version, a.Version))
	})
	return rows
}

// setCommand returns the command that sets a secret of a project. It returns "" if no project is chosen, or if the
// reader may not set its secrets.
func setCommand(reader page.Reader, project writ.ProjectID, now *snapshot.Snapshot) string {
	word := now.ProjectWord(project)
	if word == "" || !reader.Allows(identity.ActionManageSecrets, project) {
		return ""
	}
	return "writ secret set NAME --project " + word
}
