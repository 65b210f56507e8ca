// Package ntpstub is a time server for tests.
package ntpstub

import (
	"encoding/binary"
	"net"
	"slices"
	"testing"
	"time"
)

// Serve runs an NTP server until the test ends, and returns its address. Its clock is ahead of this machine's clock by
// `ahead`.
func Serve(t *testing.T, address string, ahead time.Duration) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	t.Cleanup(func() { conn.Close(); <-stopped })
	go func() {
		defer close(stopped)
		for {
			b := make([]byte, 48)
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			if n < len(b) {
				continue
			}
			// An NTP timestamp: seconds since 1900, and their fraction in units of 2^-32.
			now := time.Now().Add(ahead)
			stamp := binary.BigEndian.AppendUint32(nil, uint32(now.Unix()+2208988800))
			stamp = binary.BigEndian.AppendUint32(stamp, uint32(uint64(now.Nanosecond())<<32/1e9))
			answer := slices.Concat([]byte{0x24, 1, 6, 0xec}, make([]byte, 8), []byte("TEST"), stamp, b[40:48], stamp, stamp)
			_, _ = conn.WriteTo(answer, from)
		}
	}()
	return conn.LocalAddr().String()
}
