package testenv

import (
	"bufio"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// SwitchingServer answers each HTTP/1.1 request at a listener with the status 101 and then stays silent. It keeps the
// connections open until the test ends.
func SwitchingServer(t testing.TB, l net.Listener) {
	ended := make(chan struct{})
	var serving sync.WaitGroup
	answer := func(c net.Conn) {
		defer c.Close()
		for r := bufio.NewReader(c); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if line == "\r\n" {
				break
			}
		}
		_, err := io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
		if err == nil {
			<-ended
		}
	}
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { answer(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		close(ended)
		serving.Wait()
	})
}

// End returns the result of do. It fails the test if do does not return within a minute.
func End(t testing.TB, do func() error) error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- do() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(endGuard):
		t.Fatal("it does not end")
		return nil
	}
}

// endGuard limits the wait of End. A function that returns needs far less time.
const endGuard = time.Minute

// StartMuteAgent starts an ssh-agent that accepts connections and never answers. It calls `connected` for each of them.
// The caller calls stop, which ends all connections.
func StartMuteAgent(connected func()) (socket string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "writ") // short, because socket paths are limited
	if err != nil {
		return "", nil, err
	}
	l, err := net.Listen("unix", filepath.Join(dir, "agent"))
	if err != nil {
		os.RemoveAll(dir)
		return "", nil, err
	}
	var conns []net.Conn
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns = append(conns, c)
			connected()
		}
	})
	return l.Addr().String(), func() {
		l.Close()
		serving.Wait()
		for _, c := range conns {
			c.Close()
		}
		os.RemoveAll(dir)
	}, nil
}
