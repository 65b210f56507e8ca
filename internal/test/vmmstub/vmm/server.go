package vmm

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
)

// Limits of the real program's server.
const (
	maxConnections = 10
	maxBody        = 51200 // bytes
	maxBodySince54 = 4 << 20
)

// fullText is the answer to a connection over the limit. It names the Firecracker API, because the real program uses
// the HTTP library of Firecracker.
const fullText = "HTTP/1.1 503\r\nServer: Firecracker API\r\nConnection: close\r\nContent-Length: 40\r\n\r\n" +
	`{ "error": "Too many open connections" }`

// server speaks HTTP on the API socket. In the real program one thread accepts, reads and answers, so no connection is
// accepted or answered while an action runs.
type server struct {
	vmm      *vmm
	listener net.Listener

	conns   sync.WaitGroup
	mu      sync.Mutex
	open    map[net.Conn]bool
	stopped bool
}

// serve accepts connections until the listener is closed.
func (s *server) serve() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.vmm.thread.Lock()
		taken := s.take(conn)
		s.vmm.thread.Unlock()
		if !taken {
			_, _ = io.WriteString(conn, fullText)
			_ = conn.Close()
			continue
		}
		s.conns.Go(func() {
			defer s.drop(conn)
			s.serveConn(conn)
		})
	}
}

func (s *server) take(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || len(s.open) == maxConnections {
		return false
	}
	s.open[conn] = true
	return true
}

func (s *server) drop(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = conn.Close()
	delete(s.open, conn)
}

// stop closes all connections after the answers in progress.
func (s *server) stop() {
	_ = s.listener.Close()
	s.vmm.thread.Lock()
	s.mu.Lock()
	s.stopped = true
	for conn := range s.open {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.vmm.thread.Unlock()
	s.conns.Wait()
}

// serveConn answers the requests on a connection one by one.
func (s *server) serveConn(conn net.Conn) {
	in := bufio.NewReader(conn)
	for {
		request, err := http.ReadRequest(in)
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				unreadable(conn, "Invalid request.")
			}
			return
		}
		text, err := readBody(request, s.vmm.release)
		if err != nil {
			_, _ = io.Copy(io.Discard, request.Body) // a client that is still writing would not read the error
			unreadable(conn, err.Error())
			return
		}
		if !s.respond(conn, request, text) {
			return
		}
	}
}

// respond executes a request and answers it before it releases the thread.
func (s *server) respond(conn net.Conn, request *http.Request, text []byte) bool {
	v := s.vmm
	v.thread.Lock()
	defer v.thread.Unlock()
	if v.ended {
		return false
	}
	status, content, failed := v.answer(request.Method, request.RequestURI, text)
	if failed != nil {
		v.log.Info("HTTP API error response", "path", request.RequestURI, "status", failed.Status, "error", failed.Error())
		status, content = failed.Status, nil
		if failed.Chain != nil {
			content, _ = json.Marshal(failed.Chain) // strings
		}
	}
	return write(conn, status, content) == nil
}

// write writes an answer in the format of the real program: a status without text, and a length unless the status has
// no content.
func write(w io.Writer, status int, content []byte) error {
	text := fmt.Sprintf("HTTP/1.1 %d \r\nServer: Cloud Hypervisor API\r\nConnection: keep-alive\r\n", status)
	if status != http.StatusNoContent {
		text += "Content-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(content)) + "\r\n"
	}
	_, err := io.WriteString(w, text+"\r\n"+string(content))
	return err
}

// readBody reads Content-Length bytes; other encodings of a body are not supported.
func readBody(request *http.Request, release Release) ([]byte, error) {
	most := int64(maxBody)
	if release >= V54 {
		most = maxBodySince54
	}
	switch {
	case request.Method == http.MethodPost || request.Method == http.MethodHead || request.Method == http.MethodOptions:
		return nil, errorf("Invalid HTTP Method: Unsupported HTTP method.")
	case request.ContentLength < 0:
		return nil, errorf("Invalid request.")
	case request.ContentLength > most: // not verified for v54, which may report its own limit
		return nil, errorf("Request payload with size %d is larger than the limit of %d allowed by server.",
			request.ContentLength, maxBody)
	}
	return io.ReadAll(request.Body)
}

// unreadable answers an invalid HTTP request.
func unreadable(conn net.Conn, reason string) {
	content := fmt.Sprintf("{ \"error\": \"%s\nAll previous unanswered requests will be dropped.\" }", reason)
	_ = write(conn, http.StatusBadRequest, []byte(content))
}
