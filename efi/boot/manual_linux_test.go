package boot

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"writ/efi/boot/internal/test/manual"
	"writ/efi/progress"
)

// The table of waits in the manual has the limits of the code.
func TestTheManualHasTheLimits(t *testing.T) {
	page := manual.Read(t)
	for _, tt := range []struct {
		stage string
		limit progress.Limit
	}{
		{progress.StageModules, modulesLimit}, {"service", readyLimit},
		{"runner", joinLimit}, {"runner", progress.Limit{Most: heldPause, Then: runnerAgain}}, {"joined", approvalLimit},
		{"clock", (&clock{servers: []string{"10.77.0.1"}, now: func() time.Time { return clockFrom }}).limit()},
		{"clock", (&clock{now: func() time.Time { return time.Time{} }}).limit()}, {"off", endLimit}, {"off", offLimit},
	} {
		page.HasLimit(t, tt.stage, tt.limit)
	}
}

// The manual quotes the message of each fault.
func TestTheManualHasTheWordsOfEachFault(t *testing.T) {
	p := &probe{nameservers: func() []string { return []string{"192.0.2.53"} }}
	fails := func(lookUp, dial error) error {
		p.lookUp = func(context.Context, string) ([]string, error) { return []string{"192.0.2.1"}, lookUp }
		p.dial = func(context.Context, string, string) (net.Conn, error) { return nil, dial }
		return p.servers(t.Context(), []string{"https://sup.example.org:7441"}, "rediss://192.0.2.2")
	}
	all := []error{
		checkClock(time.Time{}), noTime(errors.New("x"), true),
		panics{Reason: panicWords + ": x", Times: 1}.trouble(), panics{Times: heldFrom}.trouble(),
		panics{Times: stillFrom}.trouble(), panics{}.afterReset().trouble(), panics{}.afterReset().afterReset().trouble(),
		new(Config).Read("writ.nothing=1"),
		(&Config{Supervisors: []string{"x"}, Redis: "x"}).Missing(false),
		fails(nil, syscall.ECONNREFUSED), fails(nil, context.DeadlineExceeded),
		fails(&net.DNSError{IsTimeout: true}, syscall.ECONNREFUSED),
		fails(&net.DNSError{IsNotFound: true}, syscall.ECONNREFUSED),
	}
	p.nameservers = func() []string { return nil }
	manual.Read(t).HasFaults(t, append(all, fails(&net.DNSError{IsNotFound: true}, syscall.ECONNREFUSED))...)
}
