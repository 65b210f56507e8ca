// Package transport reaches the servers of a cluster. It verifies them by the rosters that this process has, and by nothing that has to be
// copied. If a server is not known by these, it asks that server for newer rosters, which prove themselves, and sends nothing else before the
// server is verified. It knows HTTP, TLS and rosters; it must not know what is asked for.
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
	"writ/internal/reach"
	"writ/internal/tlsfault"
)

// MaxRosters limits one answer with rosters from an unverified server, in bytes.
const MaxRosters = 4 << 20

// How long a server may take to give rosters, and to be connected to.
const (
	fetchWithin = 30 * time.Second
	dialWithin  = 10 * time.Second
)

// Rosters are those that this process has. It may be used concurrently.
type Rosters interface {
	// Latest returns the newest, nil if there is none yet.
	Latest() (*identity.Roster, error)
	// Add verifies what follows the newest one, keeps it, and returns the newest.
	Add(signed ...[]byte) (*identity.Roster, error)
}

// Transport is an http.RoundTripper for the servers of one role. Fill it in before use.
type Transport struct {
	Rosters Rosters
	Anchor  identity.Anchor // of the cluster, for the first contact
	// Want returns the name that the server at an address, "https://host:port", must have by a roster: Coordinator, or that of a supervisor.
	Want func(roster *identity.Roster, address string) pki.Name
	// Fetch asks a server for the signed rosters after a version: FromCoordinator or FromSupervisor.
	Fetch Fetch
	// PublicNames lets a server show a certificate for its name by an authority of this system instead.
	PublicNames bool
	// Own is the certificate of this process; it may be nil.
	Own func() (*tls.Certificate, error)
	// Floors are what others of this process see of the same owners; its own if nil.
	Floors *pki.Floors
	// Now is the clock by which certificates are verified; time.Now if nil.
	Now func() time.Time
	// Version names the roster that counts now. Connections that were verified by another one are not used again. They are if it is nil.
	Version func() int
	// Header bounds the wait for the header of an answer, if it is not 0.
	Header time.Duration

	once       sync.Once
	settings   *http.Transport // of each one in verified
	mu         sync.Mutex
	version    int                        // by which those of verified were verified
	verified   map[string]*http.Transport // by address: each verifies its server, whether or not a proxy lies between
	unverified *http.Client               // verifies nothing, and sends requests for rosters only
	fetching   chan struct{}              // holds one while rosters are asked for
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
		unverified.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true} // rosters prove themselves
		t.unverified = &http.Client{Transport: unverified, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	})
}

// CloseIdleConnections closes connections that are not in use.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, verified := range t.verified {
		verified.CloseIdleConnections()
	}
}

// RoundTrip implements http.RoundTripper. Plain text goes to this machine only: USAGE otherwise. A server that is not verified gets nothing but a
// request for rosters; the error is that of pki.Verifier, or of the rosters.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.init()
	if r.URL.Scheme != "https" && !reach.Loopback(r.URL.Hostname()) {
		closeBody(r)
		return nil, writ.Errorf(writ.CodeUsage, "%s://%s is not on this machine, and what is sent there would not be encrypted", r.URL.Scheme, r.URL.Host).
			WithHint("use its https:// address")
	}
	t.verifyAnew()
	verified := t.to(r.URL)
	response, err := verified.RoundTrip(r)
	if err == nil || !mayBeOutdated(err) || r.Body != nil && r.GetBody == nil {
		return response, inWords(r.URL, err)
	}
	news, fetched := t.refresh(r.Context(), r.URL)
	switch {
	case fetched != nil && errors.Is(err, errNoRoster):
		return nil, fetched
	case !news:
		return nil, err
	}
	again := r.Clone(r.Context())
	if r.GetBody != nil {
		if again.Body, err = r.GetBody(); err != nil {
			return nil, fmt.Errorf("repeat the request: %w", err)
		}
	}
	return verified.RoundTrip(again)
}

// inWords says what a server speaks that does not speak TLS as here; other errors stay as they are.
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
	return &writ.Error{Code: writ.CodeUnreachable, Message: server.Host + " " + what, Hint: "check the address and the port: another program answers there", Err: err}
}

// verifyAnew forgets the connections that were verified by another roster than the one that counts now.
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
	clear(t.verified) // one that is in use ends with its request and its idle time
	t.version = now
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

var errNoRoster = writ.Errorf(writ.CodeCertificateUntrusted, "no roster is known by which the server could be verified")

// mayBeOutdated reports whether a newer roster could have another opinion of a server.
func mayBeOutdated(err error) bool {
	return writ.CodeOf(err) == writ.CodeCertificateUntrusted
}

// to returns what sends requests to a server once it is verified.
func (t *Transport) to(server *url.URL) *http.Transport {
	address := identity.CoordinatorURL(server.Scheme + "://" + server.Host)
	t.mu.Lock()
	defer t.mu.Unlock()
	verified := t.verified[address]
	if verified == nil {
		verified = t.settings.Clone()
		verified.TLSClientConfig = pki.Client(func(chain []*x509.Certificate) error {
			v := Verifier{Rosters: t.Rosters, Want: func(r *identity.Roster) pki.Name { return t.Want(r, address) }, Floors: t.Floors, PublicNames: t.PublicNames, Now: t.Now}
			return v.Verify(server.Hostname(), chain)
		}, t.Own)
		if server.Scheme == "http" && server.Hostname() == "localhost" {
			verified.DialContext = dialIPv4
		}
		t.verified[address] = verified
	}
	return verified
}

// dialIPv4 dials 127.0.0.1 for localhost, where a server without TLS listens that was told to listen at localhost. The system prefers ::1, where any
// user of this machine may listen at the same port, get the token of the person, and pass everything on.
func dialIPv4(ctx context.Context, network, address string) (net.Conn, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	return (&net.Dialer{Timeout: dialWithin}).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
}

// Coordinator wants the coordinator that a roster has at an address. At one that no roster has, which leads there by a proxy or tunnel, any will do.
func Coordinator(roster *identity.Roster, address string) pki.Name {
	want := pki.Name{Role: pki.Coordinator}
	if roster != nil {
		if c := roster.Coordinators.At(address); c != nil {
			want.ID = c.ID
		}
	}
	return want
}

// Verifier decides about servers by the newest roster.
type Verifier struct {
	Rosters     Rosters
	Want        func(*identity.Roster) pki.Name // who has to be there
	Floors      *pki.Floors
	PublicNames bool             // see Transport
	Now         func() time.Time // time.Now if nil
}

// Verify decides about the server of a connection to a host: by the newest roster it must be who is wanted. If PublicNames, and if the roster does not
// say exactly who is there, it may have a certificate for that host by an authority of this system instead.
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

// claimsCluster reports whether a certificate says that it is one of a cluster: then no authority of this system counts.
func claimsCluster(chain []*x509.Certificate) bool {
	return len(chain) > 0 && len(chain[0].URIs) > 0 && chain[0].URIs[0].Scheme == "writ"
}

// isPublicly reports whether an authority of this system stands behind a certificate for a host.
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

// refresh asks a server that is not verified for the rosters that this process lacks, and reports whether there were any that count.
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
		return false, fmt.Errorf("ask for the rosters of the cluster: %w", err)
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

// fetchAll asks for the rosters after a version, page by page. Its result is not verified: an anchor may lead only through the last of them.
func (t *Transport) fetchAll(ctx context.Context, server *url.URL, after int) ([][]byte, error) {
	ctx, stop := context.WithTimeout(ctx, fetchWithin)
	defer stop()
	return chain.CollectPages(after, func(after int) ([][]byte, error) { return t.Fetch(ctx, t.unverified, server, after) })
}

// Fetch asks the server at a URL for the signed rosters after a version, oldest first, by a client that verifies nothing.
type Fetch func(ctx context.Context, client *http.Client, server *url.URL, after int) ([][]byte, error)

// FromCoordinator is how a coordinator is asked. If a supervisor is there instead it is asked in its own way: by its rosters it is known for what it is.
func FromCoordinator(ctx context.Context, client *http.Client, server *url.URL, after int) ([][]byte, error) {
	return firstOf(ctx, client, server, after, coordinatorsRosters, supervisorsRosters)
}

// FromSupervisor is how the node API of a supervisor is asked, or a coordinator that is there instead.
func FromSupervisor(ctx context.Context, client *http.Client, server *url.URL, after int) ([][]byte, error) {
	return firstOf(ctx, client, server, after, supervisorsRosters, coordinatorsRosters)
}

// firstOf asks in one way, and in another one if the server does not know that. If it knows neither, the error is that of the first.
func firstOf(ctx context.Context, client *http.Client, server *url.URL, after int, ways ...Fetch) (signed [][]byte, err error) {
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

// errNotThere is why a server gives no rosters that has nothing at that path.
var errNotThere = errors.New("404 Not Found")

func get[T any](ctx context.Context, client *http.Client, server *url.URL, path string, after int) (answer T, err error) {
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
			Code: writ.CodeUnreachable, Message: fmt.Sprintf("%s gives no rosters: %s", server.Host, response.Status),
			Hint: "check the address and the port: another program answers there", Err: errNotThere,
		}
	case response.StatusCode != http.StatusOK:
		return answer, writ.Errorf(writ.CodeUnreachable, "%s gives no rosters: %s", server.Host, response.Status)
	case len(body) > MaxRosters:
		return answer, writ.Errorf(writ.CodeTooLarge, "%s gives more than %d bytes of rosters", server.Host, MaxRosters)
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return answer, writ.Errorf(writ.CodeUnreachable, "%s gives no rosters: %v", server.Host, err)
	}
	return answer, nil
}

// Address checks the address of a server: a URL with nothing behind the host, and with TLS unless it is on this machine.
func Address(what, address string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSuffix(address, "/"))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, writ.Errorf(writ.CodeUsage, "%q is no address of a %s", address, what).WithHint("it looks like https://writ.example.org:7440")
	}
	if u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, writ.Errorf(writ.CodeUsage, "the address of a %s ends with its port, and this one goes on: %s", what, u.Redacted()).WithHint("it looks like https://writ.example.org:7440")
	}
	return u, nil
}
