// Package client is one person at one cluster: the key to sign with, the rosters to believe in, the coordinators to ask, and what
// becomes of what was handed in. It believes coordinators nothing that a signature can prove: rosters are verified against the
// cluster's id, ends of runs and answers to what was signed against the supervisor's key in the roster. It must not know the command line nor how things are shown.
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
)

// How long a coordinator may take. An answer may need one from a datacenter, which coordinators wait for up to half a minute; a submission
// is only to be written down.
const (
	answerTime = 65 * time.Second
	submitTime = 15 * time.Second
)

// dialTime bounds how long one coordinator may take to answer before the next one is tried.
const dialTime = 10 * time.Second

// Client talks to the coordinators of one context.
type Client struct {
	Context config.Context
	API     *apiclient.Client // results are read with api.Answer
	Keys    Keys
	Rosters config.Rosters // what was seen so far
	// Signs is told who is about to sign, under which roster; it may be nil.
	Signs func(roster *identity.Roster, who string)

	logins  *logins
	servers *servers
}

// New returns the client of a context; dir is where rosters are kept.
func New(c config.Context, dir string, keys Keys) (*Client, error) {
	anchor, err := identity.ParseAnchor(c.Cluster, c.Anchor)
	if err != nil {
		return nil, err
	}
	rosters := config.RostersIn(dir, c.Cluster)
	rosters.Anchor = anchor
	reached := patience{&transport.Transport{
		Rosters: rosters, Anchor: anchor, Want: transport.Coordinator, Fetch: transport.FromCoordinator, PublicNames: true,
		Header: answerTime, // a connection may stand on which nothing comes through any more
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
		return nil, writ.Errorf(writ.CodeUsage, "%q is no address of a coordinator: %v", c.Servers[0], err)
	}
	if keys.Spec == "" {
		keys.Spec = c.Key
	}
	client := &Client{Context: c, API: API, Keys: keys, Rosters: rosters, logins: sessions, servers: doer}
	sessions.client = client
	return client, nil
}

// Direct returns the HTTP client for requests to one server that need no login. It verifies the server as all other requests do.
func (c *Client) Direct() *http.Client { return c.logins.http }

// servers sends a request to the first coordinator that answers, beginning with the one that answered last. Whatever writ sends may be
// sent twice.
type servers struct {
	urls   []*url.URL
	http   *http.Client
	absent string // the hint if no coordinator answers

	mu      sync.Mutex
	current int
}

// others are the coordinators that the newest roster has besides those of a context: they are asked when these do not answer.
func others(rosters config.Rosters, servers []string) (all []string) {
	roster, err := rosters.Latest()
	if err != nil || roster == nil {
		return nil // the first request says why there is none
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

// Avoid asks the others instead of a coordinator, if there are any: it is about to be taken out of the roster, and hears nothing from then on.
func (c *Client) Avoid(gone *identity.Coordinator) {
	s := c.servers
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := slices.DeleteFunc(slices.Clone(s.urls), func(u *url.URL) bool { return slices.Contains(gone.URLs, identity.CoordinatorURL(u.String())) })
	if len(rest) > 0 {
		s.urls, s.current = rest, 0
	}
}

// HintIfAway sets the hint of the error that no coordinator answers. An empty hint changes nothing.
func (c *Client) HintIfAway(hint string) { c.servers.absent = cmp.Or(hint, c.servers.absent) }

// Do implements apiclient.HttpRequestDoer.
func (s *servers) Do(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	urls, first := s.urls, s.current
	s.mu.Unlock()
	var last error
	var refusal *writ.Error // what is wrong with the first server that was reached and is not trusted
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
		return nil, refusal // of its certificate or rosters: nothing was sent. That others do not answer must not hide it
	}
	var addresses []string
	for _, u := range urls {
		addresses = append(addresses, u.String())
	}
	e := writ.Errorf(writ.CodeUnreachable, "no coordinator answers at %s", strings.Join(addresses, ", ")).WithHint("%s", s.absent)
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

// KnownRoster returns the newest roster that was seen, without asking anybody; only if none was it asks.
func (c *Client) KnownRoster(ctx context.Context) (*identity.Roster, error) {
	if c.Context.Cluster != "" {
		if known, err := c.Rosters.Latest(); known != nil || err != nil {
			return known, err
		}
	}
	return c.Roster(ctx)
}

// Person is somebody who signs, as the roster knows them.
type Person struct {
	*Key
	Name   string
	Roster *identity.Roster
}

// Person opens the key of the context and finds out whose it is, which Signs is told: nothing is signed but by a person. Close the person when
// nothing more is to be signed.
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

// Signatory returns in whose name the person signs, and by what.
func (p *Person) Signatory() Signatory { return Signatory{p.Name, p.PublicKey()} }

// SignPayload makes a submission of a payload's text.
func (p *Person) SignPayload(text []byte) ([]byte, error) {
	armored, err := p.Sign(identity.ScriptNamespace, text)
	if err != nil {
		return nil, err
	}
	return identity.Join(text, armored), nil
}

// SignStatement signs a statement. Subject, decision, what the person saw and the id of the datacenter are set; who says it and when is filled in
// here.
func (p *Person) SignStatement(s identity.Statement) ([]byte, error) {
	now := time.Now()
	digest, err := p.Roster.Digest()
	if err != nil {
		return nil, err
	}
	d := p.Roster.Datacenter(s.Datacenter)
	if d == nil {
		return nil, writ.Errorf(writ.CodeDatacenterUnknown, "the roster has no datacenter %s", s.Datacenter).WithHint("`writ dc list` shows them")
	}
	s.Certificate = identity.CertificateDigest(p.PublicKey())
	s.Format, s.RosterDigest, s.DatacenterName = identity.FormatFor(s.Certificate), digest, d.Name
	s.Cluster, s.Roster, s.Signer = p.Roster.Cluster, p.Roster.Version, p.Name
	s.Created, s.Expires, s.Nonce = now, now.Add(identity.DefaultValidity), identity.NewNonce()
	text, err := s.Text()
	if err != nil {
		return nil, err
	}
	armored, err := p.Sign(identity.StatementNamespace, text)
	if err != nil {
		return nil, err
	}
	return identity.Join(text, armored), nil
}

func unknownKey(key *Key) error {
	if cert, ok := key.PublicKey().(*ssh.Certificate); ok {
		return writ.Errorf(writ.CodeSignerUnknown, "the roster has no authority that may make the certificate %q of %s for %q",
			cert.KeyId, key.Spec, strings.Join(cert.ValidPrincipals, ", ")).
			WithHint("`writ ca list` shows what each authority may make; the certificate names a machine of the roster as its principal")
	}
	return writ.Errorf(writ.CodeSignerUnknown, "the roster does not know the key %s", key.Spec).
		WithHint("a root operator adds you: writ user add NAME --key '%s' --role deployer --project NAME", AuthorizedKey(key.PublicKey()))
}

// Submit hands in a submission. When no answer comes its error says how to learn whether it was taken.
func (c *Client) Submit(ctx context.Context, signed []byte) (writ.Submission, error) {
	waiting, stop := context.WithTimeout(ctx, submitTime)
	defer stop()
	s, err := api.Answer[writ.Submission](c.API.SubmitWithBody(waiting, api.SignedType, bytes.NewReader(signed)))
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
	e := writ.Errorf(writ.CodeUnreachable, "the coordinator did not answer; whether it took run %s is not known", run).
		WithHint("`writ run show %s` says whether it did, as soon as one answers; the same signed text is never two runs", run)
	e.Err = err
	return s, e
}

// refusedSubmission returns why a submission was refused, if that can be known.
func (c *Client) refusedSubmission(ctx context.Context, signed []byte, said *writ.Error) error {
	roster, err := c.Roster(ctx)
	if err != nil {
		return writ.Errorf(writ.CodeUnverified, "the coordinator says that it is refused (%s: %s), and the roster cannot be asked for: %v",
			said.Code, said.Message, err)
	}
	to, err := newAnswerTo(roster, identity.ScriptNamespace, signed)
	if err != nil {
		return err // as the coordinator found, or it would be somebody else's text
	}
	return to.refused(said)
}

// RunOf returns the run that a submission makes, "" if it is none: the id follows from the text alone.
func RunOf(signed []byte) writ.RunID {
	text, _, err := identity.Split(signed)
	if err != nil {
		return ""
	}
	return writ.RunIDOf(writ.DigestOf(text))
}

// isOf checks that an answer is about the submission that was handed in: the id of its run follows from the text.
func isOf(signed []byte, s writ.Submission) error {
	text, _, err := identity.Split(signed)
	if err != nil {
		return err
	}
	if run := writ.RunIDOf(writ.DigestOf(text)); s.Run != run {
		return anotherRun(run, s.Run)
	}
	return nil
}
