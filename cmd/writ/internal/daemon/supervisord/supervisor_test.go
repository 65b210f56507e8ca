package supervisord

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/cmd/writ/internal/config"
	"writ/coord/api"
	"writ/internal/test/metricspage"
	"writ/supervisor"
	"writ/supervisor/journal"
	"writ/supervisor/nodes"
)

// The roster adds the supervisor's key between its check of the roster and its registration.
func TestSupervisorAcceptedWhileRegisteringChecksAgain(t *testing.T) {
	coordinator := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any = api.Rosters{Signed: [][]byte{}, Expires: time.Now().Add(time.Hour)}
		if r.Method == http.MethodPost {
			problem := api.ProblemOf(writ.Errorf(writ.CodeConflict, "the roster already has this key, for the datacenter dc1"), "request")
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
	d, err := askOne(t.Context(), http.DefaultClient, coordinator.URL, config.RostersIn(t.TempDir(), "cluster"), api.NewRegistration{Name: "dc1"})
	if d != nil || err != nil {
		t.Errorf("it found %v and gave up: %v", d, err)
	}
}

// The journal becomes unavailable in the same way before and after the supervisor serves.
func TestStandbyWarnsAgainAfterServing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		log := slog.New(slog.NewTextHandler(&said, nil))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		at := &exchangeable{}
		answer := func() string {
			w := httptest.NewRecorder()
			at.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
			return w.Body.String()
		}
		away := writ.Errorf(writ.CodeStoreUnavailable, "the journal is away")
		round := 0
		err := (&Supervisor{Config: Config{Journal: "postgres://host/journal"}}).standBy(ctx, log, at, func() {}, func(ready func()) error {
			switch round++; round {
			case 3:
				ready()
				at.set(nodes.Standby(journal.ErrHeld, log)) // a supervisor that has served leaves this state
			case 5:
				if !strings.Contains(answer(), away.Message) {
					t.Errorf("answer of the node API = %s", answer())
				}
				return nil
			}
			return away
		})
		if got := strings.Count(said.String(), "the journal does not answer"); err != nil || got != 2 {
			t.Errorf("it warns %d times, and ends with %v:\n%s", got, err, &said)
		}
	})
}

// The promised takeover time is the lease, one check and a second for the rest. A lease outlives two failed renewals.
// That of a killed supervisor ends early.
func TestALeaseEndsSoonEnoughForAStandby(t *testing.T) {
	if most := journal.LeaseTime + lookForLease + time.Second; most > 12*time.Second {
		t.Errorf("a standby may serve %s after the last sign of life", most)
	}
	if most := journal.AbsentAfter + lookForLease + 500*time.Millisecond; most > 5*time.Second {
		t.Errorf("a standby may serve %s after a kill", most)
	}
	if journal.AbsentAfter <= journal.RenewEvery {
		t.Errorf("a living supervisor counts as killed after %s, and renews its lease every %s", journal.AbsentAfter, journal.RenewEvery)
	}
	if journal.LeaseTime < 3*journal.RenewEvery {
		t.Errorf("a lease of %s is renewed every %s", journal.LeaseTime, journal.RenewEvery)
	}
}

// A monitor must be able to distinguish a supervisor on standby from one that is down.
func TestStandbySupervisorHasOneMetric(t *testing.T) {
	s := new(Supervisor)
	page := metricspage.Read(t, supervisor.Metrics("dc1", s.now.Load))
	if len(page) != 1 || page.Value("writ_supervisor_serving", "datacenter", "dc1") != 0 {
		t.Errorf("its metrics are %v", page)
	}
	if checks := s.checks(); len(checks) != 1 || checks[0].OK || checks[0].Detail == "" {
		t.Errorf("its checks are %+v", checks)
	}
}
