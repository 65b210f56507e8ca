package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"time"

	"writ"
	"writ/cmd/writ/internal/config"
	"writ/coord"
	"writ/ledger/sqlstore"
)

// coordLedger is the file of a coordinator's ledger in its data directory.
const coordLedger = "ledger.db"

// Coord is a coordinator as a process.
type Coord struct {
	Data           string // directory of its ledger
	Ledger         string // postgres:// URL of its ledger, or @FILE with one; a file in Data if ""
	Listener       net.Listener
	PublicURL      string   // how supervisors and browsers reach it; the listener's address if ""
	Coordinators   []string // others of the cluster
	Rosters        [][]byte // signed, oldest first; those that the ledger lacks are added
	Cluster        writ.ClusterID
	AllowedHosts   []string // further names by which clients and browsers ask for it
	ProjectRate    float64  // submissions of one project a second, without bound if 0
	InsecureListen bool
	Grace          time.Duration // of requests, once it is told to end; see coord.Coordinator
	Version        string
	Log            *slog.Logger
	// SkipEarlyCheckForTest makes it pass on what it would refuse.
	SkipEarlyCheckForTest bool
}

// URL is where the coordinator can be reached.
func (c *Coord) URL() string {
	if c.PublicURL != "" {
		return c.PublicURL
	}
	return "http://" + c.Listener.Addr().String()
}

// Run serves until ctx ends, and returns nil then. ready is called when the listener is about to be served.
func (c *Coord) Run(ctx context.Context, ready func()) (err error) {
	defer c.Listener.Close()
	where, err := openPlace(c.Data, coordLedger, "ledger", c.Ledger)
	if err != nil {
		return err
	}
	defer where.lock.Close()
	store, err := sqlstore.Open(ctx, where.path)
	if err != nil {
		return fmt.Errorf("open the ledger: %w", err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	coordinator := &coord.Coordinator{
		Ledger: store, Log: c.Log, PublicURL: c.URL(), Cluster: c.Cluster, Coordinators: c.Coordinators, Version: c.Version,
		InsecureListen: c.InsecureListen, AllowedHosts: c.AllowedHosts, SubmissionsPerSecond: c.ProjectRate, Grace: c.Grace,
		SkipEarlyCheckForTest: c.SkipEarlyCheckForTest,
	}
	if err := coordinator.CheckListen(c.Listener.Addr()); err != nil {
		return err // before anybody waits for it
	}
	have, err := store.Rosters(ctx, 0)
	if err != nil {
		return fmt.Errorf("read the rosters of the ledger: %w", err)
	}
	for _, signed := range c.Rosters {
		if slices.ContainsFunc(have, func(h []byte) bool { return string(h) == string(signed) }) {
			continue
		}
		if _, err := coordinator.AddRoster(ctx, signed); err != nil {
			return fmt.Errorf("add a roster: %w", err)
		}
	}
	if len(have)+len(c.Rosters) == 0 {
		return writ.Errorf(writ.CodeRosterInvalid, "the coordinator has no roster").
			WithHint("found a cluster in its data directory with `writ init --data %s`, or give it the signed rosters with --roster", c.Data)
	}
	c.Log.InfoContext(ctx, "coordinator is listening", "url", c.URL(), "data", c.Data)
	ready()
	return coordinator.Serve(ctx, c.Listener)
}

// RostersFor returns the rosters that a coordinator begins with: those of files, or else those in its data directory. The cluster is
// that of the first one; a coordinator is told by its operator what to serve.
func RostersFor(data string, files []string) ([][]byte, writ.ClusterID, error) {
	var signed [][]byte
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, "", writ.Errorf(writ.CodeUsage, "cannot read the roster: %v", err)
		}
		signed = append(signed, text)
	}
	if len(signed) == 0 {
		kept, err := config.FindRosters(data)
		if writ.CodeOf(err) == writ.CodeNotFound {
			return nil, "", nil
		}
		if err != nil {
			return nil, "", err
		}
		if signed, err = kept.Signed(); err != nil {
			return nil, "", err
		}
	}
	cluster, err := clusterOf(signed)
	return signed, cluster, err
}
