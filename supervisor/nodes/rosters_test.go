package nodes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"writ/supervisor/nodes"
)

// pagesOf counts how often a page of rosters is built.
type pagesOf struct {
	desk
	made atomic.Int32
}

func (p *pagesOf) Rosters(_ context.Context, after int) ([][]byte, error) {
	p.made.Add(1)
	if after != 4 {
		return nil, fmt.Errorf("asked for the page after version %d, which not every caller can follow", after)
	}
	return [][]byte{bytes.Repeat([]byte("x"), 300<<10)}, nil
}

// onePage starts the pages of all callers after version 4.
type onePage struct{ members }

func (onePage) RosterPage(int) (start, newest int) { return 4, 9 }

func TestCallersShareARosterPage(t *testing.T) {
	backend := new(pagesOf)
	server := httptest.NewServer(nodes.Handler(backend, onePage{members{}}, slog.New(slog.DiscardHandler)))
	defer server.Close()
	var all sync.WaitGroup
	for n := range 50 {
		all.Go(func() {
			response, err := http.Get(server.URL + fmt.Sprintf("/v1/rosters?after=%d", 4+n%5))
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			var page [][]byte
			if err := json.NewDecoder(response.Body).Decode(&page); err != nil || len(page) != 1 || len(page[0]) != 300<<10 {
				t.Errorf("%d rosters, %v", len(page), err)
			}
		})
	}
	all.Wait()
	if n := backend.made.Load(); n != 1 {
		t.Errorf("50 callers made the page %d times", n)
	}
}

// The answer to the first request of a join has a fixed size, however many versions the roster has.
func TestAHelloIsAnsweredWithoutRosters(t *testing.T) {
	backend := new(pagesOf)
	server := httptest.NewServer(nodes.Handler(backend, members{}, slog.New(slog.DiscardHandler)))
	defer server.Close()
	response, err := http.Post(server.URL+"/v1/join/hello", "application/json", strings.NewReader(`{"name":"n1"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || len(body) > 1<<10 || backend.made.Load() != 0 {
		t.Errorf("%s, %d bytes, %d pages of rosters made, %v", response.Status, len(body), backend.made.Load(), err)
	}
}

// endless is a body without end.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	e.read.Add(int64(len(p)))
	return len(p), nil
}

func TestAFenceAnswerOfAStrangerIsNotRead(t *testing.T) {
	api := nodes.Handler(&desk{}, members{}, slog.New(slog.DiscardHandler))
	body := new(endless)
	answer := httptest.NewRecorder()
	api.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/v1/nodes/n1/fence", body))
	if answer.Code != http.StatusNotFound || body.read.Load() != 0 {
		t.Errorf("status %d after %d bytes", answer.Code, body.read.Load())
	}
}
