package clock

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"writ/efi/boot/internal/test/ntpstub"
)

// The lookup of a name has the same timeout as a time server.
func TestATimeServerWithANameIsAskedWithinItsTime(t *testing.T) {
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	var asked atomic.Int32
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		asked.Add(1)
		return new(net.Dialer).DialContext(ctx, "udp", silent.LocalAddr().String())
	}}
	// A busy machine may not send the query within so short a timeout.
	for within := 20 * time.Millisecond; asked.Load() == 0; within *= 2 {
		_, err = queryBy(&net.Dialer{Timeout: within, Resolver: resolver}, "ntp.example.org")
		if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() {
			t.Errorf("a nameserver that is silent: %v", err)
		}
		if within > time.Minute {
			t.Fatal("the nameserver is not asked")
		}
	}
}

// A time server may have an IPv6 address only.
func TestATimeServerIsAskedByIPv6(t *testing.T) {
	answer, err := query(ntpstub.Serve(t, "[::1]:0", time.Hour))
	if err != nil || answer.ClockOffset.Round(time.Minute) != time.Hour {
		t.Errorf("it answers %+v, %v", answer, err)
	}
}
