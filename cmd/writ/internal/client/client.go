// Package client is the client of one user for one cluster. It opens the signing key, verifies and stores rosters,
// queries coordinators and follows submissions. It does not trust a coordinator where a signature can prove the answer.
// It verifies rosters against the id of the cluster. It verifies run results and answers to statements against the
// supervisor's key in the roster. The package must not know the command line or the output formats.
package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"writ"
	"writ/cmd/writ/internal/config"
	"writ/cmd/writ/internal/transport"
	"writ/coord/api"
	"writ/coord/api/apiclient"
	"writ/identity"
	"writ/identity/sshsig"
)

// Timeouts for responses of a coordinator. A response may depend on a datacenter, for which coordinators wait up to
// half a minute. A submission only has to be stored.
const (
	answerTime = 65 * time.Second
	submitTime = 15 * time.Second
)

// dialTime limits requests for rosters and for logs of ended runs.
const dialTime = 10 * time.Second

// Client talks to the coordinators of one context. Its methods are grouped by subject.
type Client struct {
	Context config.Context
	API     *apiclient.Client // read results with api.Answer
	Keys    Keys
	Rosters config.Rosters // stored rosters of the cluster
	// Signs is called before a signature with the roster and the signer's name; may be nil.
	Signs func(roster *identity.Roster, who string)

	subjects
	logins  *logins
	servers *servers
}

// subjects holds the parts of a client. All of them use the connection, the key and the rosters of the client.
type subjects struct {
	Roster     Roster
	Orders     Orders
	Runs       Runs
	Streams    Streams
	Statements Statements
	Nodes      Nodes
	Holds      Holds
	Secrets    Secrets
	Sessions   Sessions
}

type (
	// Roster fetches, verifies and changes the roster of the cluster.
	Roster struct{ client *Client }
	// Orders submits scripts, and previews their effect.
	Orders struct{ client *Client }
	// Runs finds runs, and reads and verifies their data.
	Runs struct{ client *Client }
	// Streams follows the events of runs.
	Streams struct{ client *Client }
	// Statements signs and sends decisions about a datacenter.
	Statements struct{ client *Client }
	// Nodes finds nodes, and verifies their state.
	Nodes struct{ client *Client }
	// Holds reads the holds of datacenters.
	Holds struct{ client *Client }
	// Secrets reads and changes the secrets of projects.
	Secrets struct{ client *Client }
	// Sessions logs in and out.
	Sessions struct{ client *Client }
)

// New returns the client for a context. dir is the folder of the roster store.
func New(c config.Context, dir string, keys Keys) (*Client, error) {
	anchor, err := identity.ParseAnchor(c.Cluster, c.Anchor)
	if err != nil {
		return nil, err
	}
	rosters := config.RostersIn(dir, c.Cluster)
	rosters.Anchor = anchor
	reached := patience{&transport.Transport{
		Rosters: rosters, Anchor: anchor, Want: transport.Coordinator, Fetch: transport.FromCoordinator, PublicNames: true,
		Header: answerTime, // a connection may be open without carrying data
	}}
	sessions := &logins{dir: dir, http: &http.Client{Transport: reached}, have: map[string]*session{}}
	servers := c.Servers
	if !c.Alone {
		servers = slices.Concat(servers, others(rosters, servers))
	}
	doer, err := newServers(servers, loggingIn{reached, sessions})
	if err != nil {
		return nil, err
	}
	if c.Cluster == "" {
		doer.absent = noClusterHint
	}
	API, err := apiclient.NewClient(c.Servers[0], apiclient.WithHTTPClient(doer))
	if err != nil {
		return nil, writ.Errorf(writ.CodeUsage, "%q is not the address of a coordinator: %v", c.Servers[0], err)
	}
	keys.Spec = cmp.Or(keys.Spec, c.Key)
	client := &Client{Context: c, API: API, Keys: keys, Rosters: rosters, logins: sessions, servers: doer}
	client.subjects = subjects{
		Roster{client}, Orders{client}, Runs{client}, Streams{client}, Statements{client}, Nodes{client}, Holds{client},
		Secrets{client}, Sessions{client},
	}
	sessions.client = client
	return client, nil
}

// Direct returns the HTTP client for requests to one server without login. It verifies the server like all other
// requests.
func (c *Client) Direct() *http.Client { return c.logins.http }

// servers sends a request to the first coordinator that answers, starting with the one that answered last. All requests
// of writ are safe to send twice.
type servers struct {
	urls   []*url.URL
	http   *http.Client
	absent string // hint if no coordinator answers

	mu      sync.Mutex
	current int
}

// others returns the HTTPS addresses of coordinators in the newest roster that are not in the context. They are used if
// the coordinators of the context do not answer.
func others(rosters config.Rosters, servers []string) (all []string) {
	roster, err := rosters.Latest()
	if err != nil || roster == nil {
		return nil // the first request reports the error
	}
	for _, c := range roster.Coordinators {
		if slices.ContainsFunc(c.URLs, func(u string) bool { return slices.Contains(servers, u) }) {
			continue
		}
		for _, u := range c.URLs {
			if strings.HasPrefix(u, "https:") {
				all = append(all, u)
			}
		}
	}
	return all
}

func newServers(addresses []string, by http.RoundTripper) (*servers, error) {
	s := &servers{http: &http.Client{Transport: by}, absent: "check the address and that it runs (`writ doctor`)"}
	for _, a := range addresses {
		u, err := transport.Address("coordinator", a)
		if err != nil {
			return nil, err
		}
		s.urls = append(s.urls, u)
	}
	return s, nil
}

// Avoid stops using a coordinator, if the client knows another. The coordinator is about to be removed from the roster
// and will receive no further updates.
func (c *Client) Avoid(gone *identity.Coordinator) {
	s := c.servers
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := slices.DeleteFunc(slices.Clone(s.urls),
		func(u *url.URL) bool { return slices.Contains(gone.URLs, identity.CoordinatorURL(u.String())) })
	if len(rest) > 0 {
		s.urls, s.current = rest, 0
	}
}

// HintIfAway sets the hint of the error for unreachable coordinators. An empty hint changes nothing.
func (c *Client) HintIfAway(hint string) { c.servers.absent = cmp.Or(hint, c.servers.absent) }

// Do implements apiclient.HttpRequestDoer.
func (s *servers) Do(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	urls, first := s.urls, s.current
	s.mu.Unlock()
	var last error
	var refusal *writ.Error // error of the first server that was reached but is not trusted
	for i := range urls {
		at := (first + i) % len(urls)
		response, err := s.send(r, urls[at])
		if err == nil {
			s.mu.Lock()
			s.current = at
			s.mu.Unlock()
			return response, nil
		}
		if r.Context().Err() != nil {
			return nil, err
		}
		last = err
		if known, ok := errors.AsType[*writ.Error](err); ok && refusal == nil {
			refusal = known
		}
	}
	if refusal != nil {
		// This is a certificate or roster error, returned before anything was sent. It takes precedence over the errors of
		// unreachable coordinators.
		return nil, refusal
	}
	var addresses []string
	for _, u := range urls {
		addresses = append(addresses, u.String())
	}
	e := writ.Errorf(writ.CodeUnreachable, "no coordinator answers at %s", strings.Join(addresses, ", ")).
		WithHint("%s", s.absent)
	e.Err = last
	return nil, e
}

func (s *servers) send(r *http.Request, to *url.URL) (*http.Response, error) {
	again := r.Clone(r.Context())
	again.URL.Scheme, again.URL.Host, again.Host = to.Scheme, to.Host, ""
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		again.Body = body
	}
	return s.http.Do(again)
}

// Known returns the newest stored roster. It queries a coordinator only if none is stored.
func (c Roster) Known(ctx context.Context) (*identity.Roster, error) {
	if c.client.Context.Cluster != "" {
		if known, err := c.client.Rosters.Latest(); known != nil || err != nil {
			return known, err
		}
	}
	return c.Newest(ctx)
}

// Person is a signer known to the roster.
type Person struct {
	*Key
	Name   string
	Roster *identity.Roster
}

// Person opens the key of the context, finds its owner in the roster and calls Signs. All signatures go through a
// Person. Close it after the last signature.
func (c *Client) Person(ctx context.Context, roster *identity.Roster) (*Person, error) {
	key, err := c.Keys.Open(ctx, func(k ssh.PublicKey) bool { return PrincipalOf(roster, k) != "" })
	if err != nil {
		return nil, err
	}
	by, err := signatory(roster, key, time.Now())
	if err != nil {
		key.Close()
		return nil, err
	}
	if c.Signs != nil {
		c.Signs(roster, by.Name)
	}
	return &Person{Key: key, Name: by.Name, Roster: roster}, nil
}

// Signatory returns the name and key of the signer.
func (p *Person) Signatory() Signatory { return Signatory{p.Name, p.PublicKey()} }

// SignPayload signs the text of a payload and returns the submission.
func (p *Person) SignPayload(text []byte) ([]byte, error) {
	armored, err := p.Sign(sshsig.ScriptNamespace, text)
	if err != nil {
		return nil, err
	}
	return sshsig.Join(text, armored), nil
}

// SignStatement signs a statement. The caller sets subject, decision, the state seen by the user, and the datacenter
// id. SignStatement sets the signer, the times and the remaining fields.
func (p *Person) SignStatement(s identity.Statement) ([]byte, error) {
	now := time.Now()
	digest, err := p.Roster.Digest()
	if err != nil {
		return nil, err
	}
	d := p.Roster.Datacenter(s.Datacenter)
	if d == nil {
		return nil, writ.Errorf(writ.CodeDatacenterUnknown, "the roster has no datacenter %s", s.Datacenter).
			WithHint("`writ dc list` lists the datacenters")
	}
	s.Certificate = identity.CertificateDigest(p.PublicKey())
	s.Format, s.RosterDigest, s.DatacenterName = identity.FormatFor(s.Certificate), digest, d.Name
	s.Cluster, s.Roster, s.Signer = p.Roster.Cluster, p.Roster.Version, p.Name
	s.Created, s.Expires, s.Nonce = now, now.Add(identity.DefaultValidity), identity.NewNonce()
	text, err := s.Text()
	if err != nil {
		return nil, err
	}
	armored, err := p.Sign(sshsig.StatementNamespace, text)
	if err != nil {
		return nil, err
	}
	return sshsig.Join(text, armored), nil
}

// unknownKey returns the error for a key without an owner in the roster. If the key has a certificate, the certificate
// is the reason: the key of a CI job must not be in the roster.
func unknownKey(r *identity.Roster, key *Key) error {
	if cert := certificateFor(key); cert != nil {
		if err := identity.CheckCertificateOwner(r, cert); err != nil {
			return err
		}
	}
	return writ.Errorf(writ.CodeSignerUnknown, "the roster does not know the key %s", key.Spec).
		WithHint("a root operator adds you: writ user add NAME --key '%s' --role deployer --project NAME",
			AuthorizedKey(key.PublicKey()))
}

// certificateFor returns the certificate of a key: the key itself if it is a certificate, else the one in the file
// SPEC-cert.pub. It returns nil if there is no certificate for this key.
func certificateFor(key *Key) *ssh.Certificate {
	if cert, ok := key.PublicKey().(*ssh.Certificate); ok {
		return cert
	}
	cert, ok := publicHalf(key.Spec + "-cert.pub").(*ssh.Certificate)
	if !ok || !same(cert.Key, key.PublicKey()) {
		return nil
	}
	return cert
}

// Submit submits a signed text. If no answer arrives, the error explains how to find out whether the run was accepted.
func (c Orders) Submit(ctx context.Context, signed []byte) (writ.Submission, error) {
	waiting, stop := context.WithTimeout(ctx, submitTime)
	defer stop()
	s, err := api.Answer[writ.Submission](c.client.API.SubmitWithBody(waiting, api.SignedType, bytes.NewReader(signed)))
	if err == nil {
		return s, isOf(signed, s)
	}
	if isRefusal(writ.AsError(err)) {
		return s, c.refusedSubmission(ctx, signed, writ.AsError(err))
	}
	if ctx.Err() != nil || writ.CodeOf(err) != writ.CodeUnreachable || errors.Is(err, syscall.ECONNREFUSED) {
		return s, err
	}
	run := RunOf(signed)
	if run == "" {
		return s, err
	}
	e := writ.Errorf(writ.CodeUnreachable, "the coordinator did not answer: it may have accepted run %s", run).
		WithHint("check with `writ run show %s` once a coordinator answers; submitting the same signed text again is safe",
			run)
	e.Err = err
	return s, e
}

// refusedSubmission returns the verified reason for the refusal of a submission, or UNVERIFIED.
func (c Orders) refusedSubmission(ctx context.Context, signed []byte, said *writ.Error) error {
	roster, err := c.client.Roster.Newest(ctx)
	if err != nil {
		return writ.Errorf(writ.CodeUnverified,
			"the coordinator reports a refusal (%s: %s), and the roster is unavailable: %v",
			said.Code, said.Message, err)
	}
	to, err := newAnswerTo(roster, sshsig.ScriptNamespace, signed)
	if err != nil {
		return err // the coordinator found the same error, or the text is not from this client
	}
	return to.refused(said)
}

// RunOf returns the run of a submission, or "" if `signed` is not a submission. The id is derived from the text alone.
func RunOf(signed []byte) writ.RunID {
	text, _, err := sshsig.Split(signed)
	if err != nil {
		return ""
	}
	return writ.RunIDOf(writ.DigestOf(text))
}

// isOf checks that an answer is for this submission. The run id is derived from the text.
func isOf(signed []byte, s writ.Submission) error {
	text, _, err := sshsig.Split(signed)
	if err != nil {
		return err
	}
	if run := writ.RunIDOf(writ.DigestOf(text)); s.Run != run {
		return anotherRun(run, s.Run)
	}
	return nil
}
