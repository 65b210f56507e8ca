// Package transport connects to the servers of a cluster. It verifies servers by the rosters that this process stores,
// so no certificate has to be copied. If these rosters do not identify a server, the package requests newer rosters
// from that server and verifies their signatures. No other request is sent until the server is verified. The package
// handles HTTP, TLS and rosters. It must not know the content of requests.
package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"writ"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/chain"
	"writ/identity/pki"
	"writ/internal/failpoint"
	"writ/internal/outbound"
	"writ/internal/reach"
	"writ/internal/tlsfault"
)

// MaxRosters limits a roster response of an unverified server, in bytes.
const MaxRosters = 4 << 20

// Timeouts for requesting rosters and for connecting.
const (
	fetchWithin = 30 * time.Second
	dialWithin  = 10 * time.Second
)

// Rosters stores the rosters of this process. It must be safe for concurrent use.
type Rosters interface {
	// Latest returns the newest roster, or nil if the store is empty.
	Latest() (*identity.Roster, error)
	// Add verifies and stores the rosters that follow the newest one, and returns the newest roster.
	Add(signed ...[]byte) (*identity.Roster, error)
}

// Transport is an http.RoundTripper for the servers of one role. Set the fields before use.
type Transport struct {
	Rosters Rosters
	Anchor  identity.Anchor // trust anchor of the cluster, for the first contact
	// Want returns the name that roster requires of the server at address, for example "https://host:port". It is the
	// function Coordinator, or it returns the name of a supervisor.
	Want func(roster *identity.Roster, address string) pki.Name
	// Fetch requests the signed rosters after a version: FromCoordinator or FromSupervisor.
	Fetch Fetch
	// PublicNames also accepts a certificate that an authority of the operating system issued for the server's host name.
	PublicNames bool
	// Own returns the certificate of this process; may be nil.
	Own func() (*tls.Certificate, error)
	// Floors is shared by all transports of this process with the same peers; nil creates a new one.
	Floors *pki.Floors
	// Now is the clock for certificate verification; nil means time.Now.
	Now func() time.Time
	// Version returns the version of the current roster. Connections verified by another version are not reused. If
	// nil, all connections are reused.
	Version func() int
	// Header limits the wait for response headers, unless 0.
	Header time.Duration

	once       sync.Once
	settings   *http.Transport // template of the transports in verified
	mu         sync.Mutex
	version    int                        // roster version that verified the transports
	verified   map[string]*http.Transport // by address; each verifies its server, also through a proxy
	unverified *http.Client               // skips verification; sends only roster requests
	fetching   chan struct{}              // semaphore: one roster request at a time
}

func (t *Transport) init() {
	t.once.Do(func() {
		t.fetching = make(chan struct{}, 1)
		if t.Floors == nil {
			t.Floors = new(pki.Floors)
		}
		t.verified = map[string]*http.Transport{}
		t.settings = http.DefaultTransport.(*http.Transport).Clone()
		t.settings.ResponseHeaderTimeout = t.Header
		t.settings.DialContext = failpoint.Dialer((&net.Dialer{Timeout: dialWithin}).DialContext)
		t.settings.Protocols = new(http.Protocols)
		t.settings.Protocols.SetHTTP1(true)
		unverified := http.DefaultTransport.(*http.Transport).Clone()
		unverified.DisableKeepAlives = true
		// Verification is unnecessary: these requests only get rosters, which are verified by their signatures.
		unverified.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true}
		t.unverified = &http.Client{
			Transport:     outbound.Final(unverified),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	})
}

// CloseIdleConnections closes idle connections.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, verified := range t.verified {
		verified.CloseIdleConnections()
	}
}

// RoundTrip implements http.RoundTripper. It rejects plain HTTP to other machines with USAGE. If the server cannot be
// verified, it receives only a request for rosters, and RoundTrip returns the error of the verification or of the
// rosters.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.init()
	if r.URL.Scheme != "https" && !reach.Loopback(r.URL.Hostname()) {
		closeBody(r)
		return nil, writ.Errorf(writ.CodeUsage,
			"%s://%s is not on this machine, and requests to it would not be encrypted", r.URL.Scheme, r.URL.Host).
			WithHint("use its https:// address")
	}
	t.verifyAnew()
	verified := t.to(r.URL)
	response, err := outbound.Final(verified).RoundTrip(r)
	if err == nil || !mayBeOutdated(err) || r.Body != nil && r.GetBody == nil {
		return response, inWords(r.URL, err)
	}
	news, fetched := t.refresh(r.Context(), r.URL)
	switch {
	case fetched != nil && errors.Is(err, errNoRoster): // that error says nothing about the server
		return nil, fetched
	case fetched != nil && r.Context().Err() == nil:
		return nil, withoutNews(err, fetched)
	case !news:
		return nil, err
	}
	again := r.Clone(r.Context())
	if r.GetBody != nil {
		if again.Body, err = r.GetBody(); err != nil {
			return nil, fmt.Errorf("repeat the request: %w", err)
		}
	}
	response, err = outbound.Final(verified).RoundTrip(again)
	return response, inWords(r.URL, err)
}

// withoutNews adds `fetched`, the error of a request for newer rosters, to the error of a verification.
func withoutNews(err, fetched error) error {
	e := *writ.AsError(err)
	e.Message += "; newer rosters from this server: " + fetched.Error()
	e.Err = errors.Join(err, fetched)
	return &e
}

// inWords replaces TLS protocol errors by a readable message and returns other errors unchanged.
func inWords(server *url.URL, err error) error {
	what := ""
	if _, other := errors.AsType[tls.RecordHeaderError](err); other {
		what = "does not speak TLS"
	} else if tlsfault.OldProtocol(err) {
		what = "does not speak TLS 1.3"
	}
	if what == "" {
		return err
	}
	return &writ.Error{
		Code: writ.CodeUnreachable, Message: server.Host + " " + what,
		Hint: "check the address and the port: another program answers there", Err: err,
	}
}

// verifyAnew drops the connections that were verified with an older roster.
func (t *Transport) verifyAnew() {
	if t.Version == nil {
		return
	}
	now := t.Version()
	t.mu.Lock()
	defer t.mu.Unlock()
	if now == t.version {
		return
	}
	for _, verified := range t.verified {
		verified.CloseIdleConnections()
	}
	clear(t.verified) // a connection in use closes after its request and idle timeout
	t.version = now
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

var errNoRoster = writ.Errorf(writ.CodeCertificateUntrusted, "cannot verify the server without a roster")

// mayBeOutdated reports whether a newer roster could change the result of the verification.
func mayBeOutdated(err error) bool {
	return writ.CodeOf(err) == writ.CodeCertificateUntrusted
}

// to returns the verifying transport for a server.
func (t *Transport) to(server *url.URL) *http.Transport {
	address := identity.CoordinatorURL(server.Scheme + "://" + server.Host)
	t.mu.Lock()
	defer t.mu.Unlock()
	verified := t.verified[address]
	if verified == nil {
		verified = t.settings.Clone()
		verified.TLSClientConfig = pki.Client(func(chain []*x509.Certificate) error {
			v := Verifier{
				Rosters: t.Rosters, Want: func(r *identity.Roster) pki.Name { return t.Want(r, address) }, Floors: t.Floors,
				PublicNames: t.PublicNames, Now: t.Now,
			}
			return v.Verify(server.Hostname(), chain)
		}, t.Own)
		if server.Scheme == "http" && server.Hostname() == "localhost" {
			verified.DialContext = dialIPv4
		}
		t.verified[address] = verified
	}
	return verified
}

// dialIPv4 dials 127.0.0.1 in place of localhost. A plain HTTP server that listens on localhost uses 127.0.0.1, but the
// system prefers ::1. There, any local user could listen on the same port, capture the user's token and forward the
// requests.
func dialIPv4(ctx context.Context, network, address string) (net.Conn, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	return (&net.Dialer{Timeout: dialWithin}).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
}

// Coordinator is the Want function for coordinators. It requires the coordinator that roster lists at address. At an
// unlisted address, such as a proxy or tunnel, it accepts any coordinator.
func Coordinator(roster *identity.Roster, address string) pki.Name {
	want := pki.Name{Role: pki.Coordinator}
	if roster != nil {
		if c := roster.Coordinators.At(address); c != nil {
			want.ID = c.ID
		}
	}
	return want
}

// Verifier verifies servers by the newest roster.
type Verifier struct {
	Rosters     Rosters
	Want        func(*identity.Roster) pki.Name // required name of the server
	Floors      *pki.Floors
	PublicNames bool             // see Transport
	Now         func() time.Time // nil means time.Now
}

// Verify checks the certificate chain of the server at host. The newest roster must identify it as the required server.
// With PublicNames, if the roster does not require a specific server, a certificate that an authority of the operating
// system issued for host is also accepted.
func (v *Verifier) Verify(host string, chain []*x509.Certificate) error {
	roster, err := v.Rosters.Latest()
	if err != nil {
		return err
	}
	now := time.Now()
	if v.Now != nil {
		now = v.Now()
	}
	want := v.Want(roster)
	switch {
	case v.PublicNames && want.ID == "" && !claimsCluster(chain) && isPublicly(host, chain):
		return nil
	case roster == nil:
		return errNoRoster
	}
	by := pki.Verifier{Roster: roster, Now: now, Floors: v.Floors}
	return by.Is(want, chain)
}

// claimsCluster reports whether the certificate claims to belong to a cluster. Such a certificate is never verified by
// the authorities of the operating system.
func claimsCluster(chain []*x509.Certificate) bool {
	return len(chain) > 0 && len(chain[0].URIs) > 0 && chain[0].URIs[0].Scheme == "writ"
}

// isPublicly reports whether an authority of the operating system certifies chain for host.
func isPublicly(host string, chain []*x509.Certificate) bool {
	if len(chain) == 0 || host == "" {
		return false
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{DNSName: host, Intermediates: between})
	return err == nil
}

// refresh requests the missing rosters from an unverified server. It reports whether the response contained a newer
// valid roster.
func (t *Transport) refresh(ctx context.Context, server *url.URL) (bool, error) {
	select {
	case t.fetching <- struct{}{}:
		defer func() { <-t.fetching }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	known, err := t.Rosters.Latest()
	if err != nil {
		return false, err
	}
	after := 0
	if known != nil {
		after = known.Version
	}
	signed, err := t.fetchAll(ctx, &url.URL{Scheme: server.Scheme, Host: server.Host}, after)
	if err != nil {
		return false, fmt.Errorf("request the rosters of the cluster: %w", err)
	}
	if len(signed) == 0 {
		return false, nil
	}
	if known == nil {
		if _, err := t.Anchor.Verify(signed, time.Now()); err != nil {
			return false, err
		}
	}
	newest, err := t.Rosters.Add(signed...)
	return err == nil && newest != nil && newest.Version > after, err
}

// fetchAll requests all pages of rosters after a version. The result is unverified, because the version that the anchor
// names may be on the last page.
func (t *Transport) fetchAll(ctx context.Context, server *url.URL, after int) ([][]byte, error) {
	ctx, stop := context.WithTimeout(ctx, fetchWithin)
	defer stop()
	return chain.CollectPages(after,
		func(after int) ([][]byte, error) { return t.Fetch(ctx, t.unverified, server, after) })
}

// Fetch requests the signed rosters after a version, oldest first. client does not verify the server.
type Fetch func(ctx context.Context, client *http.Client, server *url.URL, after int) ([][]byte, error)

// FromCoordinator requests rosters from a coordinator. If the server is a supervisor, it uses the supervisor's API
// instead; the rosters then identify the server as a supervisor.
func FromCoordinator(ctx context.Context, client *http.Client, server *url.URL, after int) ([][]byte, error) {
	return firstOf(ctx, client, server, after, coordinatorsRosters, supervisorsRosters)
}

// FromSupervisor requests rosters from the node API of a supervisor, or from a coordinator at the same address.
func FromSupervisor(ctx context.Context, client *http.Client, server *url.URL, after int) ([][]byte, error) {
	return firstOf(ctx, client, server, after, supervisorsRosters, coordinatorsRosters)
}

// firstOf tries the ways in order until the server supports one. If it supports none, the first error is returned.
func firstOf(
	ctx context.Context, client *http.Client, server *url.URL, after int, ways ...Fetch,
) (signed [][]byte, err error) {
	for _, ask := range ways {
		got, failed := ask(ctx, client, server, after)
		if failed == nil || !errors.Is(failed, errNotThere) {
			return got, failed
		}
		if err == nil {
			err = failed
		}
	}
	return nil, err
}

func coordinatorsRosters(ctx context.Context, client *http.Client, server *url.URL, after int) ([][]byte, error) {
	answer, err := get[api.Rosters](ctx, client, server, "/v1/roster", after)
	return answer.Signed, err
}

func supervisorsRosters(ctx context.Context, client *http.Client, server *url.URL, after int) ([][]byte, error) {
	return get[[][]byte](ctx, client, server, "/v1/rosters", after)
}

// errNotThere marks a server without a roster API at the requested path.
var errNotThere = errors.New("404 Not Found")

func get[T any](
	ctx context.Context, client *http.Client, server *url.URL, path string, after int,
) (answer T, err error) {
	ctx, stop := context.WithTimeout(ctx, fetchWithin)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.String()+path+"?after="+strconv.Itoa(after), nil)
	if err != nil {
		return answer, err
	}
	response, err := client.Do(r)
	if err != nil {
		return answer, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, MaxRosters+1))
	switch {
	case err != nil:
		return answer, err
	case response.StatusCode == http.StatusNotFound:
		return answer, &writ.Error{
			Code: writ.CodeUnreachable, Message: fmt.Sprintf("%s returns no rosters: %s", server.Host, response.Status),
			Hint: "check the address and the port: another program answers there", Err: errNotThere,
		}
	case response.StatusCode != http.StatusOK:
		return answer, writ.Errorf(writ.CodeUnreachable, "%s returns no rosters: %s", server.Host, response.Status)
	case len(body) > MaxRosters:
		return answer, writ.Errorf(writ.CodeTooLarge, "%s returned more than %d bytes of rosters", server.Host, MaxRosters)
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return answer, writ.Errorf(writ.CodeUnreachable, "%s returns no rosters: %v", server.Host, err)
	}
	return answer, nil
}

// Address parses the address of a server: an http or https URL without a path, query or fragment.
func Address(what, address string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSuffix(address, "/"))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, writ.Errorf(writ.CodeUsage, "%q is not the address of a %s", address, what).
			WithHint("it looks like https://writ.example.org:7440")
	}
	if u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, writ.Errorf(writ.CodeUsage, "the address of a %s must end after the port: %s", what,
			u.Redacted()).WithHint("it looks like https://writ.example.org:7440")
	}
	return u, nil
}
