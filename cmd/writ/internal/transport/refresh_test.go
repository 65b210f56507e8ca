package transport

import (
	"bytes"
	"crypto/ed25519"
	"crypto/tls"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"writ"
	"writ/identity"
)

func TestRejectedRosterIsReported(t *testing.T) {
	c, _ := found(t, time.Hour)
	known := c.signed
	next := newKey(t)
	c.change(func(r *identity.Roster) { r.Coordinators[0].Key = next.Public().(ed25519.PublicKey) })
	damaged := bytes.Clone(c.signed[1])
	damaged[len(damaged)/2] ^= 1
	for name, tt := range map[string]struct {
		offered [][]byte
		says    string
	}{
		"damaged":   {[][]byte{known[0], damaged}, "newer rosters from this server: "},
		"too large": {[][]byte{known[0], make([]byte, MaxRosters)}, "gives more than"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, &tt.offered, c.roster.Cluster, by(next, c.roster))
			tr := newTransport(t, identity.Anchor{Cluster: c.roster.Cluster})
			if _, err := tr.Rosters.Add(known...); err != nil {
				t.Fatal(err)
			}
			err := tr.post(s.URL)
			if writ.CodeOf(err) != writ.CodeCertificateUntrusted || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v (%s)", err, writ.CodeOf(err))
			}
		})
	}
}

func TestRepeatedRequestNamesOldTLS(t *testing.T) {
	c, _ := found(t, time.Hour)
	known := c.signed
	next := newKey(t)
	c.change(func(r *identity.Roster) { r.Coordinators[0].Key = next.Public().(ed25519.PublicKey) })
	current := by(next, c.roster)
	var handshakes atomic.Int32
	// The first handshake fails, the second one is for the rosters, and then the server is another program.
	s := serve(t, &c.signed, c.roster.Cluster, &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			if handshakes.Add(1) > 2 {
				return older(current.Clone()), nil
			}
			return current, nil
		},
	})
	tr := newTransport(t, identity.Anchor{Cluster: c.roster.Cluster})
	if _, err := tr.Rosters.Add(known...); err != nil {
		t.Fatal(err)
	}
	if err := tr.post(s.URL); writ.CodeOf(err) != writ.CodeUnreachable || !strings.Contains(err.Error(), "TLS 1.3") {
		t.Errorf("%v (%s)", err, writ.CodeOf(err))
	}
}
