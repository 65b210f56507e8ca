package client

import (
	"crypto/ed25519"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/cmd/writ/internal/config"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/sshsig"
)

// A run may end between its submission and the first query.
func TestWatchShowsAllOfAFinishedRun(t *testing.T) {
	id, began := writ.RunIDOf(writ.Digest{1}), time.Now().UTC()
	after := func(d time.Duration) time.Time { return began.Add(d * time.Second) }
	run := api.Run{ID: id, State: api.RunStateSucceeded, Accepted: began, Ended: after(9)}
	calls := api.CallPage{Items: []writ.Call{{Run: id, Seq: 1, Ended: after(4)}, {Run: id, Seq: 2, Ended: after(2)}}}
	logs := api.LogPage{Items: []writ.LogLine{{Run: id, Ordinal: 1, Text: "begin", Time: after(1)}, {Run: id, Ordinal: 2, Text: "middle", Time: after(3)}}}
	for name, tt := range map[string]struct {
		away bool
		want []string
	}{
		"with its datacenter":    {false, []string{"begin", "2", "middle", "1", "succeeded"}},
		"without its datacenter": {true, []string{"2", "1", "succeeded"}},
	} {
		t.Run(name, func(t *testing.T) {
			coordinator := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var answer any = run
				switch {
				case strings.HasSuffix(r.URL.Path, "/calls"):
					answer = calls
				case strings.HasSuffix(r.URL.Path, "/logs") && tt.away:
					w.Header().Set("Content-Type", api.ProblemType)
					w.WriteHeader(http.StatusServiceUnavailable)
					answer = api.ProblemOf(writ.Errorf(writ.CodeDatacenterAway, "it is away"), "1")
				case strings.HasSuffix(r.URL.Path, "/logs"):
					answer = logs
				}
				_ = json.NewEncoder(w).Encode(answer)
			}))
			defer coordinator.Close()
			c, err := New(config.Context{Servers: []string{coordinator.URL}}, t.TempDir(), Keys{})
			if err != nil {
				t.Fatal(err)
			}
			var told []string
			_, err = c.Streams.Watch(t.Context(), id, Watcher{Event: func(e api.Event) {
				switch {
				case e.Log != nil:
					told = append(told, e.Log.Text)
				case e.Call != nil:
					told = append(told, callNumber(e.Call))
				case e.Run != nil:
					told = append(told, string(e.Run.State))
				}
			}})
			if diff := cmp.Diff(tt.want, told); diff != "" || err != nil {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

// A coordinator that was restored from a backup does not have the run or its events until the datacenter reports them.
func TestWatchContinuesAfterTheCoordinatorForgot(t *testing.T) {
	run := api.Run{ID: writ.RunIDOf(writ.Digest{1}), State: api.RunStateRunning}
	asked := 0
	coordinator := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/calls"):
			_ = json.NewEncoder(w).Encode(api.CallPage{})
			return
		case strings.HasSuffix(r.URL.Path, "/logs"):
			_ = json.NewEncoder(w).Encode(api.LogPage{})
			return
		case strings.HasSuffix(r.URL.Path, "/events"): // the run ended before; no event reports it
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = (&api.Message{ID: 1, Reset: true}).WriteTo(w)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		switch asked++; asked {
		case 2:
			w.Header().Set("Content-Type", api.ProblemType)
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(api.ProblemOf(writ.Errorf(writ.CodeNotFound, "there is no run"), "1"))
			return
		case 3:
			run.State = api.RunStateSucceeded
		}
		_ = json.NewEncoder(w).Encode(run)
	}))
	defer coordinator.Close()
	c, err := New(config.Context{Servers: []string{coordinator.URL}}, t.TempDir(), Keys{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Streams.Watch(t.Context(), run.ID, Watcher{Event: func(api.Event) {}}); err != nil || got.State != api.RunStateSucceeded {
		t.Errorf("%s, %v", got.State, err)
	}
	asked = 1
	if _, err := c.Streams.Watch(t.Context(), run.ID, Watcher{Event: func(api.Event) {}}); writ.CodeOf(err) != writ.CodeNotFound {
		t.Errorf("unknown run: %v", err)
	}
}

// A coordinator may be killed between two responses about the end of a run.
func TestWatchReportsTheEndAfterACoordinatorKill(t *testing.T) {
	run := api.Run{ID: writ.RunIDOf(writ.Digest{1}), State: api.RunStateSucceeded}
	cut := false
	coordinator := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/calls") && !cut:
			cut = true
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("{"))
		case strings.HasSuffix(r.URL.Path, "/calls"):
			_ = json.NewEncoder(w).Encode(api.CallPage{})
		case strings.HasSuffix(r.URL.Path, "/logs"):
			_ = json.NewEncoder(w).Encode(api.LogPage{})
		default:
			_ = json.NewEncoder(w).Encode(run)
		}
	}))
	defer coordinator.Close()
	c, err := New(config.Context{Servers: []string{coordinator.URL}}, t.TempDir(), Keys{})
	if err != nil {
		t.Fatal(err)
	}
	ends := 0
	_, err = c.Streams.Watch(t.Context(), run.ID, Watcher{Event: func(api.Event) { ends++ }})
	if err != nil || ends != 1 || !cut {
		t.Errorf("reported %d ends, %v", ends, err)
	}
}

func callNumber(c *writ.Call) string { return string(rune('0' + c.Seq)) }

func TestOrderThatCannotBeIsAMistakeOfThePerson(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	roster, _, err := Found(sshsig.NewSigner(key), "alice", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	good := Order{
		Script: NewScript("a.tengo", []byte("node := import(\"node\")\nnode.ping()\n")), Datacenter: writ.DatacenterID(writ.NewUUID()),
		Project: identity.Project{ID: writ.ProjectID(writ.NewUUID()), Name: "shop"}, Expires: time.Minute, Deadline: time.Hour, MaxCalls: 1,
	}
	if _, err := good.Payload(roster, Signatory{Name: "alice"}); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(o *Order){
		"expires":   func(o *Order) { o.Expires = 48 * time.Hour },
		"deadline":  func(o *Order) { o.Deadline = 0 },
		"max-calls": func(o *Order) { o.MaxCalls = -1 },
	} {
		bad := good
		change(&bad)
		if _, err := bad.Payload(roster, Signatory{Name: "alice"}); writ.CodeOf(err) != writ.CodeUsage || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("%s: %v, want USAGE", name, err)
		}
	}
}
