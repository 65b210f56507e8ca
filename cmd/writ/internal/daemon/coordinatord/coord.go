// Package coordinatord runs a coordinator as a process: its ledger, its listener with TLS, its addresses, metrics and
// traces. It refuses to start with an incomplete data directory or an address that it cannot serve. The rules of a
// coordinator are in package coord.
package coordinatord

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

	"golang.org/x/sync/errgroup"

	"writ"
	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/daemon"
	"writ/cmd/writ/internal/daemon/publiccert"
	"writ/cmd/writ/internal/monitoring"
	"writ/coord"
	"writ/coord/access"
	"writ/coord/rosters"
	"writ/coord/webhook"
	"writ/identity"
	"writ/identity/pki"
	"writ/identity/sshsig"
	"writ/internal/metrics"
	"writ/internal/tracing"
	"writ/ledger/sqlstore"
)

// The files of a coordinator in its data directory: its ledger, and the key that signs its certificates.
const (
	coordLedger        = "ledger.db"
	coordinatorKeyFile = "coordinator.key"
)

// ledgerKept describes the ledger, a file that must not be missing in a used directory. The key is not described: the
// roster decides whether the coordinator needs one.
var ledgerKept = daemon.KeptFile{
	Name: coordLedger, Role: "coordinator", Evidence: []string{coordLedger + ".lock"},
	Next: daemon.FromBackup + "To begin with an empty ledger, remove %[1]s/" + coordLedger +
		".lock: datacenters report their state again",
}

// Config holds the settings of a coordinator.
type Config struct {
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
	ProjectRate  float64 // submissions per second and project; 0 means unlimited
	Retention    coord.Retention
	ShareGiB     int64         // part of the ledger for the events of one datacenter; 0 means a share of the disk
	MaxStreams   int           // open event streams, and live pages; 0 means coord.DefaultMaxStreams
	Grace        time.Duration // time for in-flight requests after shutdown begins; see coord.Coordinator
	Keyless      bool          // serve on loopback without a key and login, although the roster names coordinators
	Version      string
	Log          *slog.Logger
	// SkipEarlyCheckForTest accepts submissions that the coordinator would reject.
	SkipEarlyCheckForTest bool
	// Ready is called just before the coordinator accepts requests; nil for no call.
	Ready func()
}

// Coordinator is a coordinator as a process.
type Coordinator struct{ Config }

// New returns a coordinator with these settings. It opens nothing.
func New(c Config) (*Coordinator, error) {
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return nil, writ.Errorf(writ.CodeUsage, "--tls-cert and --tls-key belong together, and one of them is missing").
			WithHint("give both: a certificate with its chain, and its key, as fullchain.pem and privkey.pem of certbot")
	}
	return &Coordinator{c}, nil
}

// URL returns the public URL, or the listener's address if it is unset. Run replaces an unset URL by the address in the
// roster.
func (c *Coordinator) URL() string {
	return cmp.Or(c.PublicURL, "http://"+c.Listener.Addr().String())
}

// Key returns the key of the coordinator in a data directory. It creates a missing key.
func Key(data string) (ed25519.PrivateKey, error) {
	if err := config.MakeData(data); err != nil {
		return nil, err
	}
	return sshsig.LoadOrCreateKey(filepath.Join(data, coordinatorKeyFile))
}

// find returns the roster's entry for the key in the data directory, or nil.
func (c *Coordinator) find(roster *identity.Roster) (*identity.Coordinator, ed25519.PrivateKey, error) {
	if _, err := os.Stat(filepath.Join(c.Data, coordinatorKeyFile)); roster == nil || errors.Is(err, os.ErrNotExist) {
		return nil, nil, nil
	}
	key, err := Key(c.Data)
	if err != nil {
		return nil, nil, err
	}
	return roster.Coordinators.Of(daemon.PublicKey(key)), key, nil
}

// firstAddress returns the address to show for a coordinator: the first with TLS, else the first. An HTTP address that
// was added before the coordinator had TLS no longer works.
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
func (c *Coordinator) certify(ctx context.Context, to *coord.Config) error {
	switch {
	case c.TLSCert == "":
		return nil
	case to.TLS == nil:
		return writ.Errorf(writ.CodeUsage,
			"this coordinator does not use TLS, because the roster has no https:// address for it: --tls-cert has no effect").
			WithHint("found the cluster with `writ init --coordinator https://HOST:PORT` and give this coordinator its coordinator.key, or leave out --tls-cert and --tls-key")
	}
	public := &publiccert.Certificate{
		CertFile: c.TLSCert, KeyFile: c.TLSKey,
		Hosts: publiccert.HostsOf(slices.Concat([]string{to.PublicURL}, to.OtherURLs, to.AllowedHosts)),
		What:  "the certificate for browsers", Log: c.Log, Now: time.Now,
	}
	if err := public.Open(ctx); err != nil {
		return err
	}
	to.TLS, to.PublicCertificate = pki.WithPublic(to.TLS, public.Get), public.Times
	return nil
}

// Run serves until ctx ends, and then returns nil.
func (c *Coordinator) Run(ctx context.Context) (err error) {
	defer c.Listener.Close()
	where, err := daemon.ClaimStore(c.Data, ledgerKept, "ledger", c.Ledger)
	if err != nil {
		return err
	}
	defer where.Lock.Close()
	store, err := sqlstore.Open(ctx, where.Path)
	if err != nil {
		return fmt.Errorf("open the ledger: %w", err)
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := where.Opened(); err != nil {
		return err
	}
	have, err := rosters.Load(ctx, store, c.Cluster)
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
	if self != nil && c.PublicURL == "" && !daemon.OnLoopback(c.Listener.Addr()) {
		c.PublicURL = firstAddress(self)
	}
	disk := &monitoring.Disk{Data: c.Data, Store: where.File}
	config := coord.Config{
		Ledger: store, Log: c.Log, PublicURL: c.URL(), Cluster: c.Cluster, Coordinators: c.Coordinators,
		Version:      c.Version,
		AllowedHosts: c.AllowedHosts, SubmissionsPerSecond: c.ProjectRate, Grace: c.Grace,
		DatacenterShare: c.ShareGiB << 30, LedgerSpace: disk.Space, Retention: c.Retention, MaxStreams: c.MaxStreams,
		SkipEarlyCheckForTest: c.SkipEarlyCheckForTest,
		Metrics:               []metrics.Part{disk.Metrics},
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
	traces, endTraces, err := daemon.OpenTraces(ctx, c.Traces, "writ-coordinator", c.Version, c.Log)
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
		c.Log.WarnContext(ctx, "--public-url is a loopback address, so other machines would connect to themselves",
			"url", c.PublicURL, "listen", c.Listener.Addr(),
			"fix", "name this host in --public-url as other machines do")
	}
	if err := config.CheckListen(c.Listener.Addr()); err != nil {
		return err // before a client connects
	}
	coordinator, err := coord.New(config)
	if err != nil {
		return err
	}
	monitored, err := daemon.MetricsListener(c.Metrics, config.TLS, "this coordinator speaks no TLS",
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
			WithHint("if it ran before, --data must name its directory; for a new cluster: `writ init --data %s`; or give it the signed rosters with --roster", c.Data)
	}
	c.Log.InfoContext(ctx, "coordinator is listening", "url", c.URL(), "data", c.Data)
	if c.Ready != nil {
		c.Ready()
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return coordinator.Serve(ctx, c.Listener) })
	group.Go(func() error { return daemon.ServeMetrics(ctx, monitored, coordinator.MetricsHandler(), c.Log) })
	return group.Wait()
}

// newest returns the newest roster after the given signed versions are added to a ledger whose newest roster is `have`.
// It returns nil if both are empty.
func newest(have *identity.Roster, given [][]byte) (*identity.Roster, error) {
	if have == nil {
		cluster, err := daemon.ClusterOf(given)
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

// RostersFor returns the initial rosters of a coordinator: the rosters in files, or else the rosters in its data
// directory. The first roster determines the cluster.
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
	cluster, err := daemon.ClusterOf(signed)
	return signed, cluster, err
}

// checkCoordinatorKey refuses to serve without the key of a coordinator that the roster names. Such a process would
// serve reads on loopback without a login.
func (c *Coordinator) checkCoordinatorKey(roster *identity.Roster, self *identity.Coordinator) error {
	if roster == nil || len(roster.Coordinators) == 0 || self != nil {
		return nil
	}
	if c.Keyless {
		c.Log.Warn("serving without a coordinator's key: reading needs no login. Use this only to repair the roster")
		return nil
	}
	const next = "bring %[1]s back with `writ restore`, or copy it from a backup. Without a backup give the coordinator a new key: docs/manual/runbook.md, The coordinator's key"
	path := filepath.Join(c.Data, coordinatorKeyFile)
	if daemon.Exists(path) {
		return writ.Errorf(writ.CodeDataIncomplete,
			"no coordinator that version %d of the roster names has the key in %s", roster.Version, path).
			WithHint(next, path)
	}
	return daemon.Incomplete(c.Data, coordinatorKeyFile,
		fmt.Sprintf("version %d of the roster names keys of coordinators", roster.Version)).
		WithHint(next, path)
}
