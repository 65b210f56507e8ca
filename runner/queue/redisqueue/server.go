package redisqueue

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"writ"
	"writ/internal/failpoint"
	"writ/internal/reach"
	"writ/internal/tlsfault"
	"writ/internal/unixsocket"
)

// Server is the address of a Redis, with the files that authenticate Redis and this process.
type Server struct {
	// URL is redis://[user:password@]host:port/db, rediss://… with TLS, or unix:///path?db=n.
	URL string
	// CA is a PEM file with the authorities for the certificate of Redis; "" means the authorities of the system. CA,
	// Certificate and Key need rediss://.
	CA string
	// Certificate and Key are PEM files for the client certificate of this process; "" means no certificate.
	Certificate, Key string
	// Verify decides whether the Redis at a host is trusted, if CA is empty. May be nil.
	Verify func(host string, s tls.ConnectionState) error
	// Connections limits each connection pool; 0 means the default of go-redis.
	Connections int
}

// Open returns the queue at the server. It does not connect. It reads CA, Certificate and Key to detect errors. Every
// new connection reads them again, so a file can be replaced to renew a certificate. It returns a USAGE error for
// unusable settings.
func (s Server) Open() (*Queue, error) {
	options, err := parse(s.URL)
	if err != nil {
		return nil, err
	}
	if err := s.check(options); err != nil {
		return nil, err
	}
	options.DialTimeout = cmp.Or(options.DialTimeout, 2*time.Second)
	options.ReadTimeout = cmp.Or(options.ReadTimeout, 3*time.Second)
	options.PoolSize = cmp.Or(options.PoolSize, s.Connections)
	options.DialerRetries = 1 // a command is retried as a whole
	options.ContextTimeoutEnabled = true
	options.DisableIdentity = true // the identity is sent with CLIENT SETINFO, which accounts of nodes do not permit
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if options.TLSConfig != nil {
		name := options.TLSConfig.ServerName
		options.TLSConfig, options.Dialer = nil, func(ctx context.Context, network, address string) (net.Conn, error) {
			return s.dial(ctx, network, address, name)
		}
	}
	if options.Network == "unix" {
		options.Dialer = func(ctx context.Context, _, path string) (net.Conn, error) { return unixsocket.Dial(ctx, path) }
	}
	if options.Dialer == nil {
		options.Dialer = redis.NewDialer(options)
	}
	options.Dialer = dialBounded(failpoint.Dialer(options.Dialer))
	q := &Queue{borrowed: false}
	options.CredentialsProviderContext = q.credentials(options.Username, options.Password)
	q.init(redis.NewClient(options), cmp.Or(s.Connections, maxReaders))
	return q, nil
}

// HasLogin reports whether the URL contains a login.
func (s Server) HasLogin() bool {
	u, err := url.Parse(s.URL)
	return err == nil && u.User != nil
}

// WithoutLogin returns the same server without the login, for a client with a login of its own.
func (s Server) WithoutLogin() Server {
	if u, err := url.Parse(s.URL); err == nil {
		u.User = nil
		s.URL = u.String()
	}
	return s
}

// check rejects settings that would be insecure or cannot work.
func (s Server) check(options *redis.Options) error {
	switch {
	case options.TLSConfig == nil && s.CA+s.Certificate+s.Key != "":
		return writ.Errorf(writ.CodeUsage, "certificates are set for a Redis without TLS").
			WithHint("with TLS, its URL begins with rediss://")
	case (s.Certificate == "") != (s.Key == ""):
		return writ.Errorf(writ.CodeUsage, "set both the certificate for Redis and its key")
	case options.TLSConfig == nil && options.Network != "unix" && !isLoopback(options.Addr):
		return writ.Errorf(writ.CodeUsage,
			"the Redis at %s is not on this machine, and its URL is without TLS: others on the network can read jobs and passwords", options.Addr).
			WithHint("use rediss:// (docs/manual/redis.md shows how), or the address on this machine of a tunnel that leads there")
	case options.TLSConfig != nil && options.TLSConfig.InsecureSkipVerify:
		return writ.Errorf(writ.CodeUsage, "with skip_verify any server could pose as this Redis").
			WithHint("name its CA with --redis-ca instead")
	case options.TLSConfig == nil:
		return nil
	}
	if _, err := s.config(options.TLSConfig.ServerName); err != nil {
		return writ.Errorf(writ.CodeUsage, "TLS to Redis is not possible: %v", err)
	}
	return nil
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && reach.Loopback(host)
}

// dial makes a TLS connection.
func (s Server) dial(ctx context.Context, network, address, name string) (net.Conn, error) {
	config, err := s.config(name)
	if err != nil {
		return nil, &writ.Error{Code: writ.CodeQueueUnavailable, Message: err.Error(), Err: err}
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	heard := &heardConn{Conn: conn}
	secure := tls.Client(heard, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, lateHandshake(heard.any, err)
		}
		return nil, s.explain(err)
	}
	return rejectable{secure}, nil
}

// heardConn is a connection that records whether the other side has sent anything.
type heardConn struct {
	net.Conn
	any bool
}

func (c *heardConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.any = c.any || n > 0
	return n, err
}

// lateHandshake returns the error of a handshake that was not complete in time. answered reports whether Redis has sent
// a part of the handshake. A Redis without TLS sends nothing: it treats the handshake as an incomplete line and waits
// for the rest.
func lateHandshake(answered bool, err error) error {
	e := &writ.Error{
		Code: writ.CodeQueueUnavailable, Message: "this Redis did not answer the TLS handshake in time", Err: err,
		Hint: "it is overloaded or does not speak TLS on this port: its TLS port is tls-port in its configuration",
	}
	if answered {
		e.Message, e.Hint = "this Redis did not complete the TLS handshake in time",
			"check the load of its host and of the network"
	}
	return e
}

// rejectable is a TLS connection whose writes report why Redis rejected the certificate of this process. Redis sends the
// reason after the handshake and closes the connection, so a write can fail before the reason is read.
type rejectable struct{ *tls.Conn }

func (c rejectable) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)) // the reason has arrived already, or it is lost
		if _, why := c.Read(make([]byte, 1)); tlsfault.Rejected(why) {
			return n, why
		}
	}
	return n, err
}

// config returns the TLS configuration for a server of this name. It reads CA, Certificate and Key.
func (s Server) config(name string) (*tls.Config, error) {
	config := &tls.Config{ServerName: name, MinVersion: tls.VersionTLS13}
	if s.Verify != nil && s.CA == "" {
		config.InsecureSkipVerify = true // Verify replaces the standard verification
		config.VerifyConnection = func(state tls.ConnectionState) error { return s.Verify(name, state) }
	}
	if s.CA != "" {
		text, err := os.ReadFile(s.CA)
		if err != nil {
			return nil, fmt.Errorf("read the CA of Redis: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("no certificate in %s", s.CA)
		}
	}
	if s.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(s.Certificate, s.Key)
		if err != nil {
			return nil, fmt.Errorf("read the certificate for Redis: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// explain returns QUEUE_UNAVAILABLE with a hint for known causes of a failed handshake. It returns other errors
// unchanged.
func (s Server) explain(err error) error {
	what, hint := "", ""
	known, _ := errors.AsType[*writ.Error](err)
	switch {
	case known != nil:
		what, hint = known.Message, known.Hint
	case has[x509.UnknownAuthorityError](err):
		what, hint = "its certificate is not signed by "+
			cmp.Or(s.CA, "the authorities of this system"), "give the CA that signed it with --redis-ca"
	case has[x509.HostnameError](err):
		what, hint = "its certificate is for another name", "use the name that the certificate has in the URL"
	case tlsfault.Expired(err):
		what, hint = "its certificate has expired or is not valid yet", "renew it, and check the clocks of both machines"
	case tlsfault.OldProtocol(err):
		what, hint = "it does not speak TLS 1.3", "write tls-protocols \"TLSv1.3\" into its configuration; Redis needs OpenSSL 1.1.1 or later for that"
	case has[tls.RecordHeaderError](err):
		what, hint = "it does not seem to speak TLS on this port", "its TLS port is tls-port in its configuration"
	}
	if what == "" {
		return err
	}
	return &writ.Error{
		Code: writ.CodeQueueUnavailable, Message: "this Redis is not trusted: " + what, Hint: hint, Err: err,
	}
}

func has[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
