package httpguard_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"writ/internal/httpguard"
	"writ/internal/limit"
)

func TestLargeAnswersAreMetered(t *testing.T) {
	large, small := strings.Repeat("x", httpguard.LargeAnswer), "x"
	for name, test := range map[string]struct {
		handle func(w http.ResponseWriter)
		size   int // of the memory for answers
		status int
		body   string
	}{
		"small": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusAccepted); _, _ = w.Write([]byte(small)) }, 1, http.StatusAccepted, small},
		"empty": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) }, 1, http.StatusNoContent, ""},
		"large": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusAccepted); _, _ = w.Write([]byte(large)) }, 1 << 20, http.StatusAccepted, large},
		"large without room": {func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write([]byte(large))
			_, _ = w.Write([]byte(small))
		}, 1, http.StatusTooManyRequests, "refused"},
		"cut off": {func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(small))
			if _, err := w.Write([]byte(large)); err == nil {
				t.Error("a part without room was written")
			}
		}, 1, http.StatusOK, small},
		"flushed": {func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusAccepted)
			_ = http.NewResponseController(w).Flush()
		}, 1, http.StatusAccepted, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bodies, recorder := &limit.Bodies{Size: test.size}, httptest.NewRecorder()
			metered := &httpguard.MeteredWriter{
				ResponseWriter: recorder,
				Reserve:        func(bytes int) (func(), bool) { return bodies.Reserve("alice", bytes) },
				Refuse: func(w http.ResponseWriter) {
					w.WriteHeader(http.StatusTooManyRequests)
					_, _ = w.Write([]byte("refused"))
				},
			}
			test.handle(metered)
			metered.Begin()
			if recorder.Code != test.status || recorder.Body.String() != test.body {
				t.Errorf("status %d, %d bytes", recorder.Code, recorder.Body.Len())
			}
			if bodies.Taken() != 0 {
				t.Errorf("%d bytes stay held", bodies.Taken())
			}
		})
	}
}
