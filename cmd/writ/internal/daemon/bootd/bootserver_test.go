package bootd

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/daemon"
	"writ/cmd/writ/internal/daemon/internal/test/daemontest"
	"writ/internal/test/testenv"
)

// With a certificate, the script has https:// addresses, and machines that trust its authority load the image from
// there.
func TestABootServerSpeaksTLS(t *testing.T) {
	a := daemontest.NewAuthority(t)
	a.Issue(time.Now().Add(time.Hour), "localhost")
	machines, err := daemon.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	operators, err := daemon.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Machines: machines, Operators: operators, Image: []byte("image"), TLSCert: a.CertFile, TLSKey: a.KeyFile, Log: new(testenv.Log).Logger()}
	if _, err := New(c); writ.CodeOf(err) != writ.CodeUsage {
		t.Errorf("without --url: %v", err)
	}
	c.URL = "https://localhost" + strings.TrimPrefix(machines.Addr().String(), "127.0.0.1")
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	trust := a.Browser("localhost")
	trust.MaxVersion = tls.VersionTLS12
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trust}}
	answer, err := client.Get(b.URL + "/boot/ipxe?mac=52-54-00-77-00-50")
	if err != nil {
		t.Fatal(err)
	}
	script, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil || !strings.Contains(string(script), "\nkernel "+b.URL+"/boot/image/") || !strings.Contains(string(script), " writ.boot="+b.URL+"/boot/report/") {
		t.Errorf("the script is %v\n%s", err, script)
	}
	client.CloseIdleConnections()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
