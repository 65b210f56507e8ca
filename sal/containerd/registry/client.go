package registry

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"

	"writ/internal/imageref"
	"writ/internal/outbound"
	"writ/internal/reach"
)

// resolver returns a client of the registry and its mirrors for one pull. Only the registry's own host, and the token
// server that it names, get the login. The caller calls closeIdle at the end of the pull.
func (s *Source) resolver(
	r imageref.Reference, login Login,
) (resolver remotes.Resolver, logins *loginGuard, closeIdle func()) {
	guard := outbound.Dialer{Allow: s.Allow, Servers: s.Policy.servers()}
	base := guard.Transport(s.Authorities)
	base.DisableKeepAlives, base.ResponseHeaderTimeout = false, stallLimit
	own, _ := docker.DefaultHost(r.Registry) // never fails
	bounded := outbound.Bounded{By: base, Most: maxText, Pause: stallLimit}
	guarded := &loginGuard{RoundTripper: patient{docker.NewHTTPFallback(onlyTLS{bounded, own})}, registry: own}
	client := guard.Client(guarded)
	authorizer := docker.NewDockerAuthorizer(docker.WithAuthClient(guard.Client(ofTokens{guarded})),
		docker.WithAuthCreds(func(host string) (string, string, error) {
			if host != own {
				return "", "", nil
			}
			return login.User, login.Password, nil
		}))
	host := func(name string) docker.RegistryHost {
		return docker.RegistryHost{
			Client: client, Authorizer: authorizer, Host: name, Scheme: "https", Path: "/v2",
			Capabilities: docker.HostCapabilityPull | docker.HostCapabilityResolve,
		}
	}
	var hosts []docker.RegistryHost
	for _, mirror := range s.Policy.mirrors[r.Registry] {
		hosts = append(hosts, host(strings.TrimPrefix(mirror, "https://")))
	}
	hosts = append(hosts, host(own))
	return docker.NewResolver(docker.ResolverOptions{
		Hosts:   func(string) ([]docker.RegistryHost, error) { return hosts, nil },
		Headers: http.Header{"User-Agent": {"writ"}},
	}), guarded, base.CloseIdleConnections
}

// maxToken limits an answer of a token server, in bytes. Tokens have some KiB.
const maxToken = 1 << 20

// ofTokens limits the answers of token servers to maxToken bytes. Without it, the larger limit for a blob would apply,
// which the context of the request contains.
type ofTokens struct{ http.RoundTripper }

func (t ofTokens) RoundTrip(q *http.Request) (*http.Response, error) {
	return t.RoundTripper.RoundTrip(q.WithContext(outbound.WithMost(q.Context(), maxToken)))
}

// onlyTLS rejects requests without TLS, except to loopback addresses. This includes the second attempts of
// NewHTTPFallback, and requests to the token server, whose address the registry chooses. It returns errNotOnline if all
// addresses of the registry are forbidden, but not for the other servers.
type onlyTLS struct {
	http.RoundTripper
	registry string // host and port
}

var (
	errNoTLS      = errors.New("the registry does not use TLS")
	errOtherNoTLS = errors.New("a server that the registry names does not use TLS")
	errNotOnline  = errors.New("the registry has no address on the internet")
)

func (t onlyTLS) RoundTrip(q *http.Request) (*http.Response, error) {
	if q.URL.Scheme != "https" && !reach.Loopback(q.URL.Hostname()) {
		if q.URL.Host == t.registry {
			return nil, errNoTLS
		}
		return nil, errOtherNoTLS
	}
	answer, err := t.RoundTripper.RoundTrip(q)
	if q.URL.Host == t.registry && errors.Is(err, outbound.ErrAllRefused) {
		return nil, errNotOnline
	}
	return answer, err
}

// Limits of the waits for a registry that answers 429.
const (
	maxWaits    = 3
	maxWait     = time.Minute
	defaultWait = 2 * time.Second
)

// patient waits as long as a registry asks in Retry-After, and repeats the request.
type patient struct{ http.RoundTripper }

func (t patient) RoundTrip(q *http.Request) (*http.Response, error) {
	for waits := 0; ; waits++ {
		answer, err := t.RoundTripper.RoundTrip(q)
		if err != nil || answer.StatusCode != http.StatusTooManyRequests || waits == maxWaits || q.Body != nil {
			return answer, err
		}
		wait := retryAfter(answer.Header.Get("Retry-After"))
		if wait > maxWait {
			return answer, nil
		}
		_, _ = io.CopyN(io.Discard, answer.Body, 64<<10)
		_ = answer.Body.Close()
		select {
		case <-q.Context().Done():
			return nil, q.Context().Err()
		case <-time.After(wait):
		}
	}
}

// retryAfter parses a Retry-After header: a number of seconds, or a date. It returns defaultWait if the header is
// invalid.
func retryAfter(text string) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil && seconds >= 0 {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return defaultWait
}
