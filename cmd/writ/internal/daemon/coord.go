package daemon

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"writ"
	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/metrics"
	"writ/coord"
	"writ/coord/access"
	"writ/coord/webhook"
	"writ/identity"
	"writ/identity/pki"
	"writ/internal/tracing"
	"writ/ledger/sqlstore"
)

// The files of a coordinator in its data directory: its ledger, and the key to which its certificates lead.
const (
	coordLedger        = "ledger.db"
	coordinatorKeyFile = "coordinator.key"
)

// Coord is a coordinator as a process.
type Coord struct {
	Data         string // directory of its ledger
	Ledger       string // postgres:// URL of its ledger, or @FILE with one; a file in Data if ""
	Listener     net.Listener
	Metrics      net.Listener // for metrics and health, without login, and without TLS on loopback; nil for none
	PublicURL    string       // how supervisors and browsers reach it; the listener's address if ""
	TLSCert      string       // file with a certificate that browsers know, "" for none
	TLSKey       string       // file with its key
	Coordinators []string     // others of the cluster
	Rosters      [][]byte     // signed, oldest first; those that the ledger lacks are added
	Cluster      writ.ClusterID
	AllowedHosts []string // further names by which clients and browsers ask for it
	Webhooks     string   // file with settings of webhooks, "" for none
	Traces       tracing.Settings
	ProjectRate  float64       // submissions of one project a second, without bound if 0
	ShareGiB     int64         // of the ledger for the events of one datacenter, by its disk if 0
	Grace        time.Duration // of requests, once it is told to end; see coord.Coordinator
	Keyless      bool          // serve on loopback without a key and login, although the roster names coordinators
	Version      string
	Log          *slog.Logger
	// SkipEarlyCheckForTest makes it pass on what it would refuse.
	SkipEarlyCheckForTest bool
}

// URL is where the coordinator can be reached, unless the roster says so.
func (c *Coord) URL() string {
	return cmp.Or(c.PublicURL, "http://"+c.Listener.Addr().String())
}

// CoordinatorKey returns the key of the coordinator in a data directory, and makes it if there is none.
func CoordinatorKey(data string) (ed25519.PrivateKey, error) {
	if err := config.MakeData(data); err != nil {
		return nil, err
	}
	return identity.LoadOrCreateKey(filepath.Join(data, coordinatorKeyFile))
}

// find returns what the roster says of the coordinator with the key in the data directory, nil if that is nothing.
func (c *Coord) find(roster *identity.Roster) (*identity.Coordinator, ed25519.PrivateKey, error) {
	if _, err := os.Stat(filepath.Join(c.Data, coordinatorKeyFile)); roster == nil || errors.Is(err, os.ErrNotExist) {
		return nil, nil, nil
	}
	key, err := CoordinatorKey(c.Data)
	if err != nil {
		return nil, nil, err
	}
	return roster.Coordinators.Of(PublicKey(key)), key, nil
}

// firstAddress returns the address by which a coordinator is known: the first with TLS, if it has one. One from before it had TLS leads nowhere.
func firstAddress(self *identity.Coordinator) string {
	for _, address := range self.URLs {
		if strings.HasPrefix(address, "https:") {
			return address
		}
	}
	return self.URLs[0]
}

// issuerOf issues the certificates with which a coordinator listens that the roster names, nil if all of its addresses are without TLS.
func issuerOf(cluster writ.ClusterID, self *identity.Coordinator, key ed25519.PrivateKey) (*pki.Issuer, error) {
	issuer := &pki.Issuer{Key: key, Name: pki.Name{Cluster: cluster, Role: pki.Coordinator, ID: self.ID}}
	secure := false
	for _, address := range self.URLs {
		u, err := url.Parse(address)
		if err != nil {
			return nil, fmt.Errorf("read an address of the coordinator: %w", err)
		}
		issuer.Hosts = append(issuer.Hosts, u.Hostname())
		secure = secure || u.Scheme == "https"
	}
	if !secure {
		return nil, nil
	}
	return issuer, nil
}

// certify adds the certificate for browsers, if there is one, to the configuration of a coordinator.
func (c *Coord) certify(ctx context.Context, to *coord.Config) error {
	switch {
	case c.TLSCert == "" && c.TLSKey == "":
		return nil
	case c.TLSCert == "" || c.TLSKey == "":
		return writ.Errorf(writ.CodeUsage, "--tls-cert and --tls-key belong together, and one of them is missing").
			WithHint("give both: a certificate with its chain, and its key, as fullchain.pem and privkey.pem of certbot")
	case to.TLS == nil:
		return writ.Errorf(writ.CodeUsage, "this coordinator speaks no TLS, because the roster names no https:// address of it: --tls-cert has no use").
			WithHint("found the cluster with `writ init --coordinator https://HOST:PORT` and give this coordinator its coordinator.key, or leave out --tls-cert and --tls-key")
	}
	public := &publicCertificate{
		certFile: c.TLSCert, keyFile: c.TLSKey, hosts: hostsOf(slices.Concat([]string{to.PublicURL}, to.OtherURLs, to.AllowedHosts)), what: "the certificate for browsers", log: c.Log, now: time.Now,
	}
	if err := public.open(ctx); err != nil {
		return err
	}
	to.TLS, to.PublicCertificate = pki.WithPublic(to.TLS, public.get), public.times
	return nil
}

// hostsOf returns the hosts in URLs and names.
func hostsOf(all []string) (hosts []string) {
	for _, name := range all {
		if u, err := url.Parse(name); err == nil && u.Host != "" {
			name = u.Hostname()
		}
		hosts = append(hosts, name)
	}
	return hosts
}

// Run serves until ctx ends, and returns nil then. ready is called when the listener is about to be served.
func (c *Coord) Run(ctx context.Context, ready func()) (err error) {
	defer c.Listener.Close()
	where, err := claimStore(c.Data, ledgerKept, "ledger", c.Ledger)
	if err != nil {
		return err
	}
	defer where.lock.Close()
	store, err := sqlstore.Open(ctx, where.path)
	if err != nil {
		return fmt.Errorf("open the ledger: %w", err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := where.opened(); err != nil {
		return err
	}
	have, err := coord.RosterOf(ctx, store, c.Cluster)
	if err != nil {
		return fmt.Errorf("read the rosters of the ledger: %w", err)
	}
	roster, err := newest(have, c.Rosters)
	if err != nil {
		return err
	}
	self, key, err := c.find(roster)
	if err != nil {
		return err
	}
	if err := c.checkCoordinatorKey(roster, self); err != nil {
		return err
	}
	if self != nil && c.PublicURL == "" && !onLoopback(c.Listener.Addr()) { // one that only this machine reaches is where it listens
		c.PublicURL = firstAddress(self)
	}
	disk := &metrics.Disk{Data: c.Data, Store: where.file}
	config := coord.Config{
		Ledger: store, Log: c.Log, PublicURL: c.URL(), Cluster: c.Cluster, Coordinators: c.Coordinators, Version: c.Version,
		AllowedHosts: c.AllowedHosts, SubmissionsPerSecond: c.ProjectRate, Grace: c.Grace,
		DatacenterShare: c.ShareGiB << 30, LedgerSpace: disk.Space,
		SkipEarlyCheckForTest: c.SkipEarlyCheckForTest,
		Collectors:            []prometheus.Collector{disk},
	}
	if self != nil {
		config.Self, config.OtherURLs = &access.Self{ID: self.ID, Key: key}, self.URLs
		issuer, err := issuerOf(roster.Cluster, self, key)
		if err != nil {
			return err
		}
		if issuer != nil {
			config.TLS = pki.Server(issuer.Certificate, nil)
			if c.PublicURL == "" {
				config.PublicURL = "https://" + c.Listener.Addr().String()
			}
			config.Certificates = func() ([]writ.Certificate, error) {
				own, err := issuer.Describe(nil)
				return []writ.Certificate{own}, err
			}
		}
	}
	if c.Webhooks != "" {
		if config.Webhooks, err = webhook.Read(c.Webhooks); err != nil {
			return err
		}
	}
	traces, endTraces, err := openTraces(ctx, c.Traces, "writ-coordinator", c.Version, c.Log)
	if err != nil {
		return err
	}
	defer endTraces()
	if traces != nil {
		config.Record = traces.Record
	}
	if err := c.certify(ctx, &config); err != nil {
		return err
	}
	public := newPublicAddress(c.PublicURL, c.Listener.Addr(), config.TLS != nil)
	if err := public.check(ownAddress); err != nil {
		return err
	}
	if public.misleads() {
		c.Log.WarnContext(ctx, "--public-url leads other machines to themselves", "url", c.PublicURL, "listen", c.Listener.Addr(),
			"fix", "name this host in --public-url as other machines do")
	}
	if err := config.CheckListen(c.Listener.Addr()); err != nil {
		return err // before anybody waits for it
	}
	coordinator, err := coord.New(config)
	if err != nil {
		return err
	}
	monitored, err := metricsListener(c.Metrics, config.TLS, "this coordinator speaks no TLS", "found the cluster with `writ init --coordinator https://HOST:PORT`")
	if err != nil {
		return err
	}
	for _, signed := range c.Rosters {
		if _, err := coordinator.AddRoster(ctx, signed); err != nil {
			return fmt.Errorf("add a roster: %w", err)
		}
	}
	if roster == nil {
		return writ.Errorf(writ.CodeRosterInvalid, "the coordinator has no roster in %s", c.Data).
			WithHint("if it ran before, --data must name its directory; for a new cluster: writ init --data %s; or give it the signed rosters with --roster", c.Data)
	}
	c.Log.InfoContext(ctx, "coordinator is listening", "url", c.URL(), "data", c.Data)
	ready()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return coordinator.Serve(ctx, c.Listener) })
	group.Go(func() error { return serveMetrics(ctx, monitored, coordinator.MetricsHandler(), c.Log) })
	return group.Wait()
}

// newest returns the newest roster once the given links are added to a ledger whose newest roster is have. Both may be missing: then it is nil.
func newest(have *identity.Roster, given [][]byte) (*identity.Roster, error) {
	if have == nil {
		cluster, err := clusterOf(given)
		if err != nil || len(given) == 0 {
			return nil, err
		}
		return identity.VerifyRosters(cluster, given, time.Time{})
	}
	for _, link := range given {
		if have.Has(link) {
			continue
		}
		next, err := identity.VerifyRoster(have, link, time.Time{})
		if err != nil {
			return nil, err
		}
		have = next
	}
	return have, nil
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
		if signed, err = kept.Links(); err != nil {
			return nil, "", err
		}
	}
	cluster, err := clusterOf(signed)
	return signed, cluster, err
}
