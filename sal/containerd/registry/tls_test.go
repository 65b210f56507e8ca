package registry

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"writ"
	"writ/internal/test/ociregistry"
)

// An attacker in the network could answer without TLS in place of a registry.
func TestRegistryNeedsTLS(t *testing.T) {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	var heard []string
	plain := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		heard = append(heard, r.Method+" "+r.Header.Get("Authorization"))
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	_ = plain.Listener.Close()
	plain.Listener = l
	plain.Start()
	defer plain.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	s := ociregistry.Start(t)
	p := newPuller(t, s, "0.0.0.0:"+port) // an address of this host that is not a loopback address
	p.login = Login{"ci", "right"}
	if _, err := p.pull("0.0.0.0:" + port + "/web@sha256:" + strings.Repeat("ab", 32)); writ.CodeOf(err) != writ.CodeUnreachable || !strings.Contains(err.Error(), "TLS") {
		t.Errorf("a registry without TLS: %v", err)
	}
	if len(heard) > 0 {
		t.Errorf("it heard %q", heard)
	}
}
