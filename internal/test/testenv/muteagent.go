package testenv

import (
	"net"
	"os"
	"path/filepath"
	"sync"
)

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
