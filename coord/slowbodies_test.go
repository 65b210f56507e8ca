package coord

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// slowClient sends a body that does not end. It returns the body and a channel with the status of the response.
func (p *fixture) slowClient(remote string, sent int) (body io.Closer, status chan int) {
	read, write := io.Pipe()
	status = make(chan int, 1)
	go func() {
		r := httptest.NewRequest(http.MethodPost, p.PublicURL+"/v1/submissions", read)
		r.RemoteAddr = remote
		answer := httptest.NewRecorder()
		p.Handler().ServeHTTP(answer, r)
		read.Close()
		status <- answer.Code
	}()
	if _, err := write.Write(bytes.Repeat([]byte("x"), sent-1)); err == nil {
		_, _ = write.Write([]byte("x")) // once this is read, all bytes before it are counted
	}
	return write, status
}

// TestSlowBodiesTakeBoundedMemory has slow clients send most of a large body each. A client of another network is
// served meanwhile.
func TestSlowBodiesTakeBoundedMemory(t *testing.T) {
	const bound, clients, sent = 2 << 20, 8, 500 << 10
	p := start(t, nil, func(c *Coordinator) { c.front.Bodies.Size = bound })
	bodies, statuses := map[int]io.Closer{}, map[int]chan int{}
	for i := range clients {
		bodies[i], statuses[i] = p.slowClient("192.0.2.1:1", sent)
	}
	for i := 3; i < clients; i++ { // three fit into three quarters of the bound
		bodies[i].Close() // too late: it was refused before
		if status := <-statuses[i]; status != http.StatusTooManyRequests {
			t.Errorf("a body without room: %d", status)
		}
	}
	if taken := p.front.Bodies.Taken(); taken > 3*sent || taken < 3*(sent-1) {
		t.Errorf("%d bytes are held", taken)
	}
	body, status := p.slowClient("198.51.100.1:1", 100)
	body.Close()
	if got := <-status; got != http.StatusBadRequest {
		t.Errorf("a client of another network: %d", got)
	}
	for i := range 3 {
		bodies[i].Close()
		if got := <-statuses[i]; got != http.StatusBadRequest {
			t.Errorf("body without a submission: status %d", got)
		}
	}
	if taken := p.front.Bodies.Taken(); taken != 0 {
		t.Errorf("%d bytes stay held", taken)
	}
}
