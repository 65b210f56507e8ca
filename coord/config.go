package coord

import (
	"cmp"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"writ"
	"writ/coord/access"
	"writ/coord/webhook"
	"writ/internal/metrics"
	"writ/internal/reach"
	"writ/internal/tracing"
	"writ/ledger"
)

// Defaults of a Config's fields.
const (
	// DefaultRequestsPerSecond limits requests per client address. A list request costs ten. A script that lists
	// everything in a loop stays below the limit, a runaway loop does not.
	DefaultRequestsPerSecond = 1000
	// DefaultSubmissionsPerSecond leaves most of a datacenter to other projects: two cores carry out 300 runs of five
	// calls a second. See docs/measurements.md.
	DefaultSubmissionsPerSecond = 50
	DefaultMaxStreams           = 256
	// MostStreams is the largest useful MaxStreams. A listener accepts 8,192 connections, half of them from streams and
	// live pages.
	MostStreams = 2048
)

// Config configures a coordinator.
type Config struct {
	Ledger    ledger.Ledger // required
	Log       *slog.Logger  // required
	PublicURL string        // required: the URL for supervisors and browsers, "https://writ.example.org"
	// Cluster is the cluster of this coordinator. It decides which first roster is accepted; if it is empty, the ledger
	// must already have a roster.
	Cluster writ.ClusterID
	// OtherURLs are further addresses of this coordinator that supervisors may dial. If PublicURL is on loopback, every
	// spelling of loopback with the same port is accepted as well.
	OtherURLs []string
	// AllowedHosts are further host names that browsers and clients may use.
	AllowedHosts []string
	// Coordinators are the addresses of the other coordinators of the cluster. Supervisors keep a link to each of them.
	Coordinators []string
	Version      string // version of this program, shown to people

	// RequestsPerSecond limits the requests of one remote address, and of one logged-in person. 0 means
	// DefaultRequestsPerSecond. Bursts may be twice as large.
	RequestsPerSecond float64
	// SubmissionsPerSecond limits the submissions of one project; 0 means no limit. Bursts may be twice as large. A large
	// submission counts as several. Other signed texts, such as cancellations, are limited to a fifth of this rate per
	// person.
	SubmissionsPerSecond float64
	// DatacenterShare limits the bytes of one datacenter's events in the ledger. 0 derives the limit from LedgerSpace.
	DatacenterShare int64
	// Retention limits the age of rows in the ledger.
	Retention Retention
	// LedgerSpace returns the free space of the ledger's disk and the size of the ledger, in bytes. The size is 0 if the
	// disk is unknown. LedgerSpace may be nil.
	LedgerSpace func() (free, ledger int64)
	// MaxStreams limits the open event streams, and separately the open live pages. 0 means DefaultMaxStreams. One
	// network gets three quarters of them.
	MaxStreams int
	// Grace limits how long in-flight requests may run after shutdown begins; 10 s if 0.
	Grace time.Duration
	// Self identifies this coordinator in the roster. If set, reading needs a login; if nil, every client may read
	// everything.
	Self *access.Self
	// TLS configures the listener of Serve; nil means plain text.
	TLS *tls.Config
	// Certificates describes the certificates of this coordinator. It may be nil.
	Certificates func() ([]writ.Certificate, error)
	// PublicCertificate returns the validity period of the TLS certificate for browsers. It is nil if there is no such
	// certificate.
	PublicCertificate func() (from, until time.Time)
	// Webhooks are the endpoints that an operator has configured for notifications.
	Webhooks []webhook.Endpoint
	// Metrics are further metrics about the process of this coordinator.
	Metrics []metrics.Part
	// Record receives the spans of runs; nil disables tracing.
	Record func(s tracing.Span)
	// SkipEarlyCheckForTest forwards texts that the early check would reject, to prove that supervisors reject them.
	SkipEarlyCheckForTest bool
	// Now is the clock for the verification of signed texts; time.Now if nil.
	Now func() time.Time
}

// withDefaults returns a copy whose unset fields have their defaults.
func (c Config) withDefaults() Config {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.MaxStreams <= 0 {
		c.MaxStreams = DefaultMaxStreams
	}
	if c.RequestsPerSecond <= 0 {
		c.RequestsPerSecond = DefaultRequestsPerSecond
	}
	c.Grace = cmp.Or(c.Grace, defaultGrace)
	c.Retention.Events = cmp.Or(c.Retention.Events, DefaultKeepEvents)
	c.Retention.Runs = cmp.Or(c.Retention.Runs, DefaultKeepRuns)
	return c
}

// validate returns an error if a required field is missing or invalid.
func (c *Config) validate() error {
	if c.Ledger == nil || c.Log == nil {
		return errors.New("a coordinator needs a ledger and a log")
	}
	u, err := url.Parse(c.PublicURL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || strings.Trim(u.Path, "/") != "" ||
		u.RawQuery != "" {
		return writ.Errorf(writ.CodeUsage, "%q is not a valid URL of a coordinator", c.PublicURL).
			WithHint("it looks like https://writ.example.org")
	}
	return nil
}

// CheckListen rejects an address outside loopback with LISTEN_REFUSED, unless the coordinator uses TLS and reading
// needs a login.
func (c *Config) CheckListen(address net.Addr) error {
	if c.TLS != nil && c.Self != nil {
		return nil
	}
	if host, _, err := net.SplitHostPort(address.String()); err == nil && reach.Loopback(host) {
		return nil
	}
	return writ.Errorf(writ.CodeListenRefused,
		"%s is not on loopback, and the roster names no key and https:// address of this coordinator", address).
		WithHint("found the cluster with `writ init --coordinator https://HOST:PORT` and give this coordinator its coordinator.key, or listen on 127.0.0.1")
}
