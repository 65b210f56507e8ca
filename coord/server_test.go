package coord

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// A client that never ends its request delays the shutdown of a coordinator by its grace at most.
func TestEndlessRequestIsCut(t *testing.T) {
	p := start(t, func(c *Config) { c.Grace = time.Millisecond })
	address := strings.TrimPrefix(p.PublicURL, "http://")
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "POST /v1/submissions HTTP/1.1\r\nHost: %s\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n", address); err != nil {
		t.Fatal(err)
	}
	answer, err := bufio.NewReader(conn).ReadString('\n') // sent when the body is being read
	if err != nil || !strings.Contains(answer, "100 Continue") {
		t.Fatalf("it answers %q, %v", answer, err)
	}
	ended := make(chan struct{})
	go func() { p.stop(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(defaultGrace / 2):
		t.Error("the coordinator waits for it")
		conn.Close()
		<-ended
	}
}
