package nodes_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"writ/internal/limit"
	"writ/supervisor/nodes"
)

// slowDesk reads the list of a boot server and holds it.
type slowDesk struct {
	bootDesk
	read chan error
	hold chan struct{}
}

func (d *slowDesk) ReportBoots(_ context.Context, _ nodes.BootCredential, read func() ([]byte, error)) error {
	_, err := read()
	d.read <- err
	<-d.hold
	return err
}

// TestBodiesOfNodesTakeBoundedMemory holds lists of boot servers of many networks at the same time.
func TestBodiesOfNodesTakeBoundedMemory(t *testing.T) {
	const senders = limit.DefaultBodies/nodes.MaxBootList + 2
	d := &slowDesk{read: make(chan error), hold: make(chan struct{})}
	api := nodes.Handler(d, nil, slog.New(slog.DiscardHandler))
	list := bytes.Repeat([]byte("x"), nodes.MaxBootList)
	codes := make([]int, senders)
	var all sync.WaitGroup
	for i := range senders {
		all.Go(func() {
			r := httptest.NewRequest(http.MethodPost, "/v1/boots", bytes.NewReader(list))
			r.RemoteAddr = fmt.Sprintf("192.0.2.%d:1", i+1)
			r.Header.Set("Authorization", "Writ-Boot e30")
			w := httptest.NewRecorder()
			api.ServeHTTP(w, r)
			codes[i] = w.Code
		})
	}
	refused := 0
	for range senders {
		if err := <-d.read; err != nil {
			refused++
		}
	}
	close(d.hold)
	all.Wait()
	limited := 0
	for _, code := range codes {
		if code == http.StatusTooManyRequests {
			limited++
		}
	}
	if refused < 2 || limited != refused {
		t.Errorf("of %d lists that exceed the bound %d were refused, %d with 429", senders, refused, limited)
	}
}
