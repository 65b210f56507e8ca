package reach

import (
	"context"
	"net"
	"syscall"
	"testing"

	"writ/efi/boot/internal/test/manual"
)

func TestTheManualHasTheFaultsOfServers(t *testing.T) {
	p := &Probe{}
	page := manual.Read(t)
	for _, nameservers := range [][]string{{"192.0.2.53"}, nil} {
		p.nameservers = func() []string { return nameservers }
		for _, tt := range []struct{ lookUp, dial error }{
			{nil, syscall.ECONNREFUSED}, {nil, context.DeadlineExceeded},
			{&net.DNSError{IsTimeout: true}, syscall.ECONNREFUSED}, {&net.DNSError{IsNotFound: true}, syscall.ECONNREFUSED},
		} {
			p.lookUp = func(context.Context, string) ([]string, error) { return []string{"192.0.2.1"}, tt.lookUp }
			p.dial = func(context.Context, string, string) (net.Conn, error) { return nil, tt.dial }
			page.HasFaults(t, p.Servers(t.Context(), []string{"https://sup.example.org:7441"}, "rediss://192.0.2.2"))
		}
	}
}
