package httpguard_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"writ/internal/httpguard"
	"writ/internal/limit"
)

// Requests that wait for their client do not block others.
func TestSlowClientsHoldNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := &limit.Turns{Size: 1}
		handler := httpguard.InTurn(turns, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			fmt.Fprint(w, len(body))
		}))
		serve := func(w http.ResponseWriter, body io.Reader) {
			handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", body))
		}
		slow, sender := io.Pipe()
		go serve(httptest.NewRecorder(), slow) // waits for its body
		reads := make(chan struct{})
		go serve(slowWriter{httptest.NewRecorder(), reads}, strings.NewReader("")) // its client does not read
		synctest.Wait()
		quick := httptest.NewRecorder()
		serve(quick, strings.NewReader(""))
		if quick.Body.String() != "0" {
			t.Error("slow clients keep the only turn")
		}
		_ = sender.Close()
		close(reads)
		synctest.Wait()
	})
}

// slowWriter is the response to a client that does not read until reads is closed.
type slowWriter struct {
	http.ResponseWriter
	reads <-chan struct{}
}

func (w slowWriter) Write(b []byte) (int, error) {
	<-w.reads
	return w.ResponseWriter.Write(b)
}

func TestWaitingRequestEndsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		handler := httpguard.InTurn(&limit.Turns{Size: 1}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/waits" {
				httpguard.EndTurn(r.Context())
				<-answer
			}
		}))
		serve := func(path string) {
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		}
		go serve("/waits")
		synctest.Wait()
		serve("/") // blocks forever if the waiting request has the only turn
		close(answer)
	})
}
