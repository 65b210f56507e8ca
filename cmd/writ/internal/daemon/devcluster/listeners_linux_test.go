package devcluster

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/daemon"
	"writ/cmd/writ/internal/daemon/runnerd"
)

// listeners returns the TCP ports at which this process listens.
func listeners(t *testing.T) (ports []int64) {
	t.Helper()
	ours := map[string]bool{} // inodes
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, "socket:[") {
			ours[strings.Trim(target[len("socket:"):], "[]")] = true
		}
	}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			continue // no IPv6
		}
		for line := range strings.Lines(string(text)) {
			const local, state, inode, listening = 1, 3, 9, "0A"
			fields := strings.Fields(line)
			if len(fields) <= inode || fields[state] != listening || !ours[fields[inode]] {
				continue
			}
			_, port, _ := strings.Cut(fields[local], ":")
			n, err := strconv.ParseInt(port, 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			ports = append(ports, n)
		}
	}
	return ports
}

// ask sends a request to a port and returns the response, or nil if the port does not speak HTTP.
func ask(t *testing.T, port int64, lines ...string) *http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := fmt.Fprintf(conn, "%s\r\nConnection: close\r\n\r\n", strings.Join(lines, "\r\n")); err != nil {
		return nil
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil
	}
	defer answer.Body.Close()
	var problem struct {
		Code string `json:"code"`
	}
	_ = json.NewDecoder(answer.Body).Decode(&problem)
	answer.Status = problem.Code
	return answer
}

// TestEveryListenerRefusesPagesOfStrangers runs a whole cluster in this process and reads its listeners from the
// kernel. It sends each of them the requests that a browser makes for a page of another site.
func TestEveryListenerRefusesPagesOfStrangers(t *testing.T) {
	l, err := daemon.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ready, ended := make(chan Running, 1), make(chan error, 1)
	dev := New(Config{
		Data: t.TempDir(), Listener: l, Datacenters: 1, Nodes: 1, Drivers: runnerd.DriversSimulated, Speed: 100, Version: "test",
		Log: slog.New(slog.DiscardHandler), Note: t.Logf, Ready: func(c Running) { ready <- c },
	})
	ctx, stop := context.WithCancel(t.Context())
	go func() { ended <- dev.Run(ctx) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	http := 0
	for _, port := range listeners(t) {
		refused := ask(t, port, "GET / HTTP/1.1", "Host: attacker.example")
		if refused == nil {
			continue
		}
		http++
		for _, path := range []string{"/", "/metrics", "/healthz", "/openapi.yaml", "/v1/runs", "/v1/link", "/v1/rosters", "/v1/join/hello"} {
			for _, method := range []string{"GET", "POST"} {
				first := method + " " + path + " HTTP/1.1"
				for _, lines := range [][]string{
					{first, "Host: attacker.example", string(writ.CodeHostUnknown)},
					{first, "Host: localhost.attacker.example:" + fmt.Sprint(port), string(writ.CodeHostUnknown)},
					{first, "Host: localhost\r\nOrigin: https://attacker.example", string(writ.CodeOriginForeign)},
					{first, "Host: localhost\r\nSec-Fetch-Site: cross-site", string(writ.CodeOriginForeign)},
				} {
					got, want := ask(t, port, lines[:2]...), lines[2]
					if got == nil || got.Status != want || got.StatusCode != writ.Code(want).Info().Status {
						t.Errorf("port %d, %q: %+v, want %s", port, lines[:2], got, want)
					}
				}
			}
		}
	}
	if http != 2 {
		t.Errorf("%d listeners speak HTTP, want 2: coordinator and supervisor", http)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
