package reach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"writ/efi/progress"
	"writ/internal/test/testenv"
)

// For each unreachable server, the machine reports the reason and the remedy. Servers listen on loopback.
//
// Promise: Machines from an image: A start fault is on the console within 10 s of the first process, with the next
// step, and in `writ boot list` if possible.
// How: Each wait has a limit, after which it is shown; the first process diagnoses unreachable servers, missing
// drivers and missing firmware; the list needs a reachable boot server.
// Also: TestServersAreTriedAtOnce, TestAServerThatCannotBeReachedStaysKnown, TestDevicesWithoutADriverAreNamed,
// TestFirmwareThatTheKernelDoesNotFindIsNamed, TestMachineWithoutAddressShowsARemedy,
// TestStartShowsTheTimeRequest, TestATimeServerWithANameIsAskedWithinItsTime,
// TestTheManualHasTheFaultsOfServers, TestHeldMachineIsListedWithItsRemedy,
// TestMachineReportsStartFaults.
func TestMachineShowsWhyAServerIsUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	here, closed := l.Addr().String(), fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	_, port, _ := net.SplitHostPort(here)
	names := map[string]error{
		"unknown.example.org": &net.DNSError{IsNotFound: true}, "silent.example.org": &net.DNSError{IsTimeout: true}, "odd.example.org": errors.New("odd"),
	}
	servers := []string{"192.0.2.53"}
	p := &Probe{
		lookUp: func(_ context.Context, host string) ([]string, error) {
			if err := names[host]; err != nil {
				return nil, err
			}
			return []string{"192.0.2.9", "127.0.0.1"}, nil
		},
		dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			switch host, _, _ := net.SplitHostPort(address); host {
			case "192.0.2.1":
				return nil, context.DeadlineExceeded
			case "192.0.2.9":
				return nil, &net.OpError{Err: syscall.EHOSTUNREACH}
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		},
		nameservers: func() []string { return servers },
	}
	for _, tt := range []struct{ supervisors, redis, says, next string }{
		{"https://" + here, "rediss://" + here + "/0", "", ""},
		{"https://" + closed + ",https://" + here, "rediss://" + here, "", ""}, // another supervisor answers
		{"https://sup.example.org:" + port, "unix:///run/redis.sock", "", ""},  // the second address answers
		{"https://" + closed, "rediss://" + here, "the supervisor does not listen at " + closed, "writ.supervisor"},
		{"https://" + here, "rediss://" + closed, "Redis does not listen at " + closed, "writ.redis"},
		{"https://" + here, "rediss://192.0.2.1", "Redis does not answer at 192.0.2.1:6379 within 3s", "firewalls"},
		{"https://192.0.2.1", "rediss://" + here, "the supervisor does not answer at 192.0.2.1:443", "firewalls"},
		{"https://192.0.2.9:7441", "rediss://" + here, "cannot reach the supervisor at 192.0.2.9:7441", "gateway"},
		{"https://unknown.example.org", "rediss://" + here, "the name unknown.example.org, which the nameservers 192.0.2.53 do not know", "correct the name in writ.supervisor"},
		{"https://silent.example.org", "rediss://" + here, "the nameservers 192.0.2.53 do not answer", "writ.nameserver"},
		{"https://odd.example.org", "rediss://" + here, "the nameservers 192.0.2.53 do not answer", "writ.nameserver"},
	} {
		err := p.Servers(t.Context(), strings.Split(tt.supervisors, ","), tt.redis)
		if (err != nil) != (tt.says != "") || err != nil && (!strings.Contains(err.Error(), tt.says) || !strings.Contains(progress.HintOf(err), tt.next)) {
			t.Errorf("%s and %s: %v, %s; want %q", tt.supervisors, tt.redis, err, progress.HintOf(err), tt.says)
		}
	}
	servers = nil
	if err := p.Servers(t.Context(), []string{"https://silent.example.org"}, "rediss://unknown.example.org"); err == nil || strings.Count(err.Error(), "has no nameserver") != 2 {
		t.Errorf("without a nameserver: %v", err)
	}
}

// Silent servers are tried concurrently, so the diagnosis takes no longer with several of them. The name has exactly
// the number of addresses that are tried.
func TestServersAreTriedAtOnce(t *testing.T) {
	const names, dials = 3, 3*addressesTried + 1
	var addresses []string
	for i := range 1000 {
		addresses = append(addresses, fmt.Sprintf("192.0.2.%d", i%250))
	}
	var dialed atomic.Int32
	all := make(chan struct{})
	p := &Probe{
		lookUp: func(context.Context, string) ([]string, error) { return addresses, nil },
		dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			if dialed.Add(1) == dials {
				close(all)
			}
			select {
			case <-all:
				return nil, syscall.ECONNREFUSED
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		},
		nameservers: func() []string { return nil },
	}
	var supervisors []string
	for i := range names {
		supervisors = append(supervisors, fmt.Sprintf("https://s%d.example.org:7441", i))
	}
	err := p.Servers(t.Context(), supervisors, "rediss://192.0.2.1")
	if n := dialed.Load(); n != dials || err == nil || strings.Count(err.Error(), "the connection is refused") != 2 {
		t.Errorf("%d addresses are tried: %v", n, err)
	}
}
