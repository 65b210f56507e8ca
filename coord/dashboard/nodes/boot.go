package nodes

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"writ"
	"writ/coord/api"
	"writ/coord/dashboard/page"
	"writ/coord/dashboard/snapshot"
	"writ/internal/hidden"
	"writ/ledger"
)

const (
	bootServerAway = 30 * time.Second // with many machines, a boot server reports only every few seconds
	digestShown    = 12
)

// boot is the page of machines that boot over the network, as reported by boot servers. A machine in the network of a
// boot server can impersonate another machine, so the reports are only displayed and have no effect.
func (d *Pages) boot(ctx context.Context, r *http.Request, _ bool) (*page.Page, error) {
	only := writ.DatacenterID(r.URL.Query().Get("datacenter"))
	now, err := d.Now(ctx)
	if err != nil {
		return nil, err
	}
	p := &page.Page{
		Title: "Boot", Nav: "boot",
		Body: bootPage{nodeFilter{only, now.Datacenters}},
	}
	var servers []bootServer
	var rows []bootRow
	left := 0
	for _, dc := range now.Boots {
		if only != "" && dc.Datacenter != only {
			continue
		}
		servers = append(servers, bootServersOf(dc, now.At)...)
		rows = append(rows, bootRowsOf(dc)...)
		left += max(dc.Total-len(dc.Machines), 0)
	}
	slices.SortStableFunc(rows, func(a, b bootRow) int { return b.Since.Compare(a.Since) })
	if err := d.linkNodes(ctx, only, rows); err != nil {
		return nil, err
	}
	page.Add(p, page.Part{ID: "servers"}, servers...)
	page.Add(p, page.Part{ID: "total"}, bootsLeft{left})
	page.Add(p, page.Part{ID: "boots"}, rows...)
	return p, nil
}

// bootsLeft counts the machines that the page omits.
type bootsLeft struct{ N int }

// Key is constant, because its part of the page has no other element.
func (bootsLeft) Key() string { return "total" }

// bootServer is a boot server with its report, or an unreachable datacenter.
type bootServer struct {
	api.BootServer
	Datacenter     writ.DatacenterID
	DatacenterName string
	Away           bool   // the last report of the boot server is old
	Why            string // why the datacenter is unreachable, or ""
}

// Key identifies the boot server.
func (s bootServer) Key() string { return string(s.Datacenter) + "/" + s.Token }

// Digest returns the beginning of the digest of the boot server's image.
func (s bootServer) Digest() string { return s.Image[:min(len(s.Image), digestShown)] }

func bootServersOf(dc api.DatacenterBoots, now time.Time) (all []bootServer) {
	name := hidden.Escape(dc.Name)
	if dc.Error != nil {
		return []bootServer{{Datacenter: dc.Datacenter, DatacenterName: name, Why: hidden.Escape(dc.Error.Message)}}
	}
	for _, s := range dc.Servers {
		escapeAll(&s.Token, &s.Name, &s.Image, &s.Trouble)
		all = append(all,
			bootServer{BootServer: s, Datacenter: dc.Datacenter, DatacenterName: name, Away: now.Sub(s.Heard) > bootServerAway})
	}
	return all
}

// bootRow is a booting machine.
type bootRow struct {
	api.BootMachine
	Datacenter     writ.DatacenterID
	DatacenterName string
	State          string // one word: failed, starting, pending, joined, off, unknown
	Page           string // page of the node that the machine has joined as, or ""
	Mismatch       string // why the node may be a different machine, or ""
}

// Key identifies the row: a machine can be in the networks of two boot servers.
func (r bootRow) Key() string { return string(r.Datacenter) + "/" + r.Server + "/" + r.Mac }

// Facts lists further facts about the machine.
func (r bootRow) Facts() string {
	var all []string
	for _, fact := range []struct{ what, is string }{{"serial", r.Serial}, {"asset", r.Asset}, {"at", r.Address}} {
		if fact.is != "" {
			all = append(all, fact.what+" "+fact.is)
		}
	}
	if r.Starts > 1 {
		all = append(all, fmt.Sprintf("%d starts", r.Starts))
	}
	return strings.Join(all, ", ")
}

// Tone returns the CSS class of the boot server's advice.
func (r bootRow) Tone() string {
	switch r.State {
	case "failed":
		return "why"
	case snapshot.StepJoined, "off":
		return "says"
	}
	return "waits"
}

func bootRowsOf(dc api.DatacenterBoots) []bootRow {
	rows := make([]bootRow, len(dc.Machines))
	for i, m := range dc.Machines {
		escapeAll(&m.Mac, &m.Server, &m.Node, &m.Step, &m.Advice, &m.Address, &m.Serial, &m.Asset, &m.UUID, &m.Assigned,
			&m.Assignment)
		rows[i] = bootRow{
			BootMachine: m, Datacenter: dc.Datacenter, DatacenterName: hidden.Escape(dc.Name), State: bootState(m),
		}
	}
	return rows
}

// escapeAll escapes texts from unauthenticated machines for display.
func escapeAll(texts ...*string) {
	for _, text := range texts {
		*text = hidden.Escape(*text)
	}
}

// bootState returns the state of a machine in one word.
func bootState(m api.BootMachine) string {
	switch {
	case m.Failed:
		return "failed"
	case m.Step == "":
		return "unknown"
	case m.Step == "waits":
		return "pending"
	case m.Step == snapshot.StepJoined || m.Step == "off":
		return m.Step
	}
	return "starting"
}

// namedNode identifies a node by name, as boot servers do.
type namedNode struct {
	datacenter writ.DatacenterID
	name       string
}

// linkNodes links each joined machine to the node whose name it reported.
func (d *Pages) linkNodes(ctx context.Context, only writ.DatacenterID, rows []bootRow) error {
	var names []string
	for _, r := range rows {
		if r.State == snapshot.StepJoined && r.Node != "" {
			names = append(names, r.Node)
		}
	}
	known, err := d.nodesNamed(ctx, only, names)
	if err != nil {
		return err
	}
	for i := range rows {
		r := &rows[i]
		n, ok := known[namedNode{r.Datacenter, r.Node}]
		if !ok || r.State != snapshot.StepJoined {
			continue
		}
		r.Page = page.NodePage(n.Datacenter, n.ID)
		if n.Host != nil && len(n.Host.NICs) > 0 &&
			!slices.ContainsFunc(n.Host.NICs, func(c writ.HostNIC) bool { return strings.EqualFold(c.MAC, r.Mac) }) {
			r.Mismatch = "the node reports no network card with this address"
		}
	}
	return nil
}

// nodesNamed returns the approved nodes with one of these names. It reads the ledger once, unless the nodes exceed a
// page.
func (d *Pages) nodesNamed(
	ctx context.Context, only writ.DatacenterID, names []string,
) (map[namedNode]writ.Node, error) {
	known := map[namedNode]writ.Node{}
	slices.Sort(names)
	filter := ledger.NodeFilter{Datacenter: only, Admission: writ.AdmissionApproved, Names: slices.Compact(names)}
	if len(filter.Names) == 0 { // an empty filter would select all nodes
		return known, nil
	}
	for n, err := range ledger.All(ctx, d.Ledger.Nodes, filter) {
		if err != nil {
			return nil, err
		}
		known[namedNode{n.Datacenter, n.Name}] = n
	}
	return known, nil
}
