package nodes_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"writ/supervisor/nodes"
)

// largePages returns a different page of 8 MiB for each version.
type largePages struct{ desk }

func (largePages) Rosters(context.Context, int) ([][]byte, error) {
	return [][]byte{bytes.Repeat([]byte("x"), 8<<20)}, nil
}

func (largePages) Greet(context.Context, nodes.Hello) (nodes.Proof, error) { return nodes.Proof{}, nil }

// manyPages starts the page of a caller after its version.
type manyPages struct{ members }

func (manyPages) RosterPage(after int) (start, newest int) { return after, 99 }

// clientFrom returns a client with its own address.
func clientFrom(t *testing.T, address string) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	client := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// TestSlowReadersKeepNoPageFromOthers has a client not read pages that fill the memory for pages. Clients with other
// addresses are answered.
func TestSlowReadersKeepNoPageFromOthers(t *testing.T) {
	server := httptest.NewServer(nodes.Handler(&largePages{}, manyPages{members{}}, slog.New(slog.DiscardHandler)))
	defer server.Close()
	slow, honest := clientFrom(t, "127.0.1.1"), clientFrom(t, "127.0.1.2")
	for after := range 2 {
		response, err := slow.Get(server.URL + fmt.Sprintf("/v1/rosters?after=%d", after))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
	}
	page := make(chan string)
	go func() {
		response, err := honest.Get(server.URL + "/v1/rosters?after=7")
		if err != nil {
			page <- err.Error()
			return
		}
		defer response.Body.Close()
		n, err := io.Copy(io.Discard, response.Body)
		page <- fmt.Sprint(response.StatusCode, n > 8<<20, err)
	}()
	for {
		select {
		case got := <-page:
			if got != "200 true <nil>" {
				t.Errorf("the page of an honest client: %s", got)
			}
			return
		case <-time.After(200 * time.Millisecond): // joins continue while a client waits for its page
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/v1/join/hello", strings.NewReader(`{"name":"n1"}`))
			if err != nil {
				t.Fatal(err)
			}
			response, err := honest.Do(request)
			if err != nil {
				t.Fatalf("a join while a client waits for its page: %v", err)
			}
			response.Body.Close()
			stop()
		}
	}
}
