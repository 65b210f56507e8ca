package sqldb

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"writ"
	"writ/internal/reach"
	"writ/internal/tlsfault"
)

// localHosts reports whether a host of a PostgreSQL address is this machine, so that the connection needs no TLS.
type localHosts func(host string) bool

// onThisMachine is the default for localHosts: unix sockets and loopback addresses.
func onThisMachine(host string) bool {
	network, _ := pgconn.NetworkAddress(host, 0)
	return network == "unix" || reach.Loopback(host)
}

// checkTransport rejects an address that would let an attacker on the network impersonate the database, or read and
// change its traffic. It checks the parsed configuration, which includes the environment (PGHOST, PGSSLMODE, …) and
// service files: every possible host and every fallback from TLS.
func checkTransport(config *pgx.ConnConfig, local localHosts) error {
	if address := config.RuntimeParams["hostaddr"]; address != "" {
		return writ.Errorf(writ.CodeUsage, "the address of the store has hostaddr=%s, which writ does not know", address).
			WithHint("name the machine with host only, by the name that its certificate has")
	}
	ways := append([]*pgconn.FallbackConfig{{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}},
		config.Fallbacks...)
	for _, way := range ways {
		if local(way.Host) {
			continue
		}
		if verifiesName(way.TLSConfig, way.Host) {
			way.TLSConfig.MinVersion = tls.VersionTLS13
			continue
		}
		what := "without TLS"
		if way.TLSConfig != nil {
			what = "with TLS that does not verify the server"
		}
		return writ.Errorf(writ.CodeUsage, "the PostgreSQL at %s is not on this machine, and would be reached %s: "+
			"an attacker on the network could change the store", way.Host, what).
			WithHint("write sslmode=verify-full into its address, and sslrootcert=/path/to/ca.pem if no authority of this system signed " +
				"its certificate (docs/manual/postgresql.md); PGSSLMODE and service files count as the address does")
	}
	config.LookupFunc = lookUpHere(config.LookupFunc)
	return nil
}

// verifiesName reports whether the TLS configuration accepts only a valid certificate for host.
func verifiesName(config *tls.Config, host string) bool {
	return config != nil && !config.InsecureSkipVerify && config.ServerName == host
}

// lookUpHere resolves names with `next`. For localhost it accepts only loopback addresses.
func lookUpHere(next pgconn.LookupFunc) pgconn.LookupFunc {
	return func(ctx context.Context, host string) ([]string, error) {
		found, err := next(ctx, host)
		if host != "localhost" || err != nil {
			return found, err
		}
		var here []string
		for _, address := range found {
			if ip, err := netip.ParseAddr(address); err == nil && ip.Unmap().IsLoopback() {
				here = append(here, address)
			}
		}
		if len(here) == 0 {
			return nil, &net.DNSError{Err: "it is not an address of this machine", Name: host, IsNotFound: true}
		}
		return here, nil
	}
}

// distrust returns the reason why a server is not trusted, and a hint. It returns "" for other errors.
func distrust(err error) (what, hint string) {
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, name := errors.AsType[x509.HostnameError](err)
	_, invalid := errors.AsType[x509.CertificateInvalidError](err)
	switch {
	case unknown:
		return "its certificate is signed by an authority that is not trusted here",
			"name the CA that signed it with sslrootcert=/path/to/ca.pem in the address"
	case name:
		return "its certificate is for another name", "use the name that the certificate has in the address"
	case invalid:
		return "its certificate has expired, or is not valid yet, or not for a server",
			"renew it, and check the clocks of both machines"
	case tlsfault.OldProtocol(err):
		return "it does not speak TLS 1.3",
			"remove ssl_max_protocol_version from its postgresql.conf; PostgreSQL needs OpenSSL 1.1.1 or later for that"
	case err != nil && strings.Contains(err.Error(), "server refused TLS connection"): // pgx has only this text
		return "it does not speak TLS",
			"set ssl = on in its postgresql.conf, with a certificate for its name (docs/manual/postgresql.md)"
	}
	return "", ""
}
