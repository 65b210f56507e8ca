package transport

import (
	"bytes"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"writ"
	"writ/identity"
	"writ/internal/outbound"
	"writ/internal/test/testenv"
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
		"too large": {[][]byte{known[0], make([]byte, MaxRosters)}, "returned more than"},
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

// An attacker in the network can answer requests for rosters. Later requests would wait for the end of such a request.
func TestProtocolSwitchEndsRequests(t *testing.T) {
	c, front := found(t, time.Hour)
	for name, key := range map[string]ed25519.PrivateKey{"the coordinator": front, "a stranger": newKey(t)} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			testenv.SwitchingServer(t, tls.NewListener(l, by(key, c.roster)))
			tr := newTransport(t, identity.Anchor{Cluster: c.roster.Cluster})
			if _, err := tr.Rosters.Add(c.signed...); err != nil {
				t.Fatal(err)
			}
			err = testenv.End(t, func() error {
				response, err := (&http.Client{Transport: tr}).Get("https://" + l.Addr().String() + "/v1/runs")
				if err != nil {
					return err
				}
				defer response.Body.Close()
				_, err = io.ReadAll(response.Body)
				return err
			})
			if !errors.Is(err, outbound.ErrSwitched) {
				t.Errorf("%v", err)
			}
		})
	}
}
