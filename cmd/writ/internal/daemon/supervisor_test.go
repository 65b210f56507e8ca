package daemon

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/config"
	"writ/coord/api"
)

// TestASupervisorThatIsTakenInWhileItRegistersLooksAgain lets the roster name its key between its look at the roster and its registration.
func TestASupervisorThatIsTakenInWhileItRegistersLooksAgain(t *testing.T) {
	coordinator := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any = api.Rosters{Signed: [][]byte{}, Expires: time.Now().Add(time.Hour)}
		if r.Method == http.MethodPost {
			problem := api.ProblemOf(writ.Errorf(writ.CodeConflict, "the roster has this key already, for the datacenter dc1"), "request")
			w.Header().Set("Content-Type", api.ProblemType)
			w.WriteHeader(problem.Status)
			answer = problem
		} else {
			w.Header().Set("Content-Type", "application/json")
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	defer coordinator.Close()
	d, err := askOne(t.Context(), coordinator.URL, config.RostersIn(t.TempDir(), "cluster"), api.NewRegistration{Name: "dc1"})
	if d != nil || err != nil {
		t.Errorf("it found %v and gave up: %v", d, err)
	}
}
