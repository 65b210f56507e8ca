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

// The files of a coordinator in its data directory: its ledger, and the key that signs its certificates.
const (
	coordLedger        = "ledger.db"
	coordinatorKeyFile = "coordinator.key"
)

// Coord is a coordinator as a process.
type Coord struct {
	Data         string // directory of its ledger
	Ledger       string // postgres:// URL of its ledger, or @FILE with one; "" means a file in Data
	Listener     net.Listener
	Metrics      net.Listener // for metrics and health, without login, and without TLS on loopback; nil for none
	PublicURL    string       // URL for supervisors and browsers; "" means the listener's address
	TLSCert      string       // file with a certificate that browsers trust, "" for none
	TLSKey       string       // file with its key
	Coordinators []string     // other coordinators of the cluster
	Rosters      [][]byte     // signed, oldest first; added to the ledger if missing there
	Cluster      writ.ClusterID
	AllowedHosts []string // further host names for clients and browsers
	Webhooks     string   // file with settings of webhooks, "" for none
	Traces       tracing.Settings
	ProjectRate  float64       // submissions per second and project; 0 means unlimited
	ShareGiB     int64         // part of the ledger for the events of one datacenter; 0 means a share of the disk
	Grace        time.Duration // time for in-flight requests after shutdown begins; see coord.Coordinator
	Keyless      bool          // serve on loopback without a key and login, although the roster names coordinators
	Version      string
	Log          *slog.Logger
	// SkipEarlyCheckForTest accepts submissions that the coordinator would reject.
	SkipEarlyCheckForTest bool
}

// URL returns the address of the coordinator, unless the roster has another one.
func (c *Coord) URL() string {
	return cmp.Or(c.PublicURL, "http://"+c.Listener.Addr().String())
}

// CoordinatorKey returns the key of the coordinator in a data directory. It creates a missing key.
func CoordinatorKey(data string) (ed25519.PrivateKey, error) {
	if err := config.MakeData(data); err != nil {
		return nil, err
	}
	return identity.LoadOrCreateKey(filepath.Join(data, coordinatorKeyFile))
}

// find returns the roster's entry for the key in the data directory, or nil.
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

// firstAddress returns the address to show for a coordinator: the first with TLS, else the first. An address from
// before TLS leads nowhere.
func firstAddress(self *identity.Coordinator) string {
	for _, address := range self.URLs {
		if strings.HasPrefix(address, "https:") {
			return address
		}
	}
	return self.URLs[0]
}

// issuerOf returns the issuer of the certificates of a coordinator in the roster, nil if none of its addresses has TLS.
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
		return writ.Errorf(writ.CodeUsage,
			"this coordinator speaks no TLS, because the roster names no https:// address of it: --tls-cert has no use").
			WithHint("found the cluster with `writ init --coordinator https://HOST:PORT` and give this coordinator its coordinator.key, or leave out --tls-cert and --tls-key")
	}
	public := &publicCertificate{
		certFile: c.TLSCert, keyFile: c.TLSKey,
		hosts: hostsOf(slices.Concat([]string{to.PublicURL}, to.OtherURLs, to.AllowedHosts)),
		what:  "the certificate for browsers", log: c.Log, now: time.Now,
	}
	if err := public.open(ctx); err != nil {
		return err
	}
	to.TLS, to.PublicCertificate = pki.WithPublic(to.TLS, public.get), public.times
	return nil
}

// hostsOf returns the hosts of URLs and host names.
func hostsOf(all []string) (hosts []string) {
	for _, name := range all {
		if u, err := url.Parse(name); err == nil && u.Host != "" {
			name = u.Hostname()
		}
		hosts = append(hosts, name)
	}
	return hosts
}

// Run serves until ctx ends, and then returns nil. It calls ready just before it accepts requests.
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
	// On loopback the listener's address is right.
	if self != nil && c.PublicURL == "" && !onLoopback(c.Listener.Addr()) {
		c.PublicURL = firstAddress(self)
	}
	disk := &metrics.Disk{Data: c.Data, Store: where.file}
	config := coord.Config{
		Ledger: store, Log: c.Log, PublicURL: c.URL(), Cluster: c.Cluster, Coordinators: c.Coordinators,
		Version:      c.Version,
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
		c.Log.WarnContext(ctx, "--public-url leads other machines to themselves", "url", c.PublicURL,
			"listen", c.Listener.Addr(),
			"fix", "name this host in --public-url as other machines do")
	}
	if err := config.CheckListen(c.Listener.Addr()); err != nil {
		return err // before a client connects
	}
	coordinator, err := coord.New(config)
	if err != nil {
		return err
	}
	monitored, err := metricsListener(c.Metrics, config.TLS, "this coordinator speaks no TLS",
		"found the cluster with `writ init --coordinator https://HOST:PORT`")
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

// newest returns the newest roster after the given links are added to a ledger whose newest roster is have. It returns
// nil if both are missing.
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

// RostersFor returns the initial rosters of a coordinator: those in files, or else those in its data directory. The
// first roster determines the cluster.
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
