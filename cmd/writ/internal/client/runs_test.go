package client

import (
	"crypto/ed25519"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/config"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/sshsig"
)

// lists starts a coordinator that answers every list request with these runs.
func lists(t *testing.T, asked *string, runs ...api.Run) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = r.URL.RawQuery
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(api.RunPage{Items: runs})
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// A prefix matches one run or none. Other answers of a coordinator are rejected.
//
// Promise: Signatures and rosters: A coordinator cannot choose the run that a person cancels or resumes by a partial
// id or `@last`.
// How: The client computes the ids of local submissions; it asks for confirmation of any other run, and without a
// terminal it signs only for a full id.
// Also: TestTheLastRunIsThatOfTheLastSubmission, TestAHostileCoordinatorRedirectsNoDecision/run_.*_prefix.
func TestARunIsFoundByTheBeginningOfItsID(t *testing.T) {
	one := api.Run{ID: writ.RunID("abcd" + strings.Repeat("e", 22)), Script: "web.tengo", State: api.RunStateFailed}
	other := one
	other.ID = "abcd" + writ.RunID(strings.Repeat("f", 22))
	foreign := one
	foreign.ID = writ.RunIDOf(writ.Digest{1})
	short := one
	short.ID = "abcde"
	for name, tt := range map[string]struct {
		text  string
		runs  []api.Run
		want  writ.RunID
		sure  bool
		code  writ.Code
		named string
	}{
		"whole id":                {string(one.ID), nil, one.ID, true, "", ""},
		"prefix":                  {"abcd", []api.Run{one}, one.ID, false, "", ""},
		"all but one":             {string(one.ID[:25]), []api.Run{one}, one.ID, false, "", ""},
		"several":                 {"abcd", []api.Run{one, other}, "", false, writ.CodeConflict, string(other.ID)},
		"many":                    {"abcd", []api.Run{one, other, one, other, one, other}, "", false, writ.CodeConflict, "and more"},
		"none":                    {"abcd", nil, "", false, writ.CodeNotFound, "abcd"},
		"another than asked for":  {"abcd", []api.Run{foreign}, "", false, writ.CodeUnverified, string(foreign.ID)},
		"one of them is another":  {"abcd", []api.Run{one, foreign}, "", false, writ.CodeUnverified, string(foreign.ID)},
		"no id":                   {"abcd", []api.Run{short}, "", false, writ.CodeUnverified, ""},
		"too short":               {"abc", []api.Run{one}, "", false, writ.CodeUsage, "4"},
		"too long":                {string(one.ID) + "a", []api.Run{one}, "", false, writ.CodeUsage, ""},
		"not of an id":            {"ab1d", []api.Run{one}, "", false, writ.CodeUsage, ""},
		"the newest":              {"@last", []api.Run{one}, one.ID, false, "", ""},
		"the newest of none":      {"@last", nil, "", false, writ.CodeNotFound, "writ submit"},
		"the newest without id":   {"@last", []api.Run{short}, "", false, writ.CodeUnverified, ""},
		"something else than all": {"@first", []api.Run{one}, "", false, writ.CodeUsage, "@last"},
	} {
		var asked string
		c, err := New(config.Context{Servers: []string{lists(t, &asked, tt.runs...)}, Project: "web-shop"}, t.TempDir(), Keys{})
		if err != nil {
			t.Fatal(err)
		}
		id, sure, err := c.Runs.Find(t.Context(), tt.text)
		if id != tt.want || sure != tt.sure || writ.CodeOf(err) != tt.code {
			t.Errorf("%s: %q, sure %v, %v; want %q, %v, %s", name, id, sure, err, tt.want, tt.sure, tt.code)
		}
		if err != nil && !strings.Contains(writ.AsError(err).Message+writ.AsError(err).Hint, tt.named) {
			t.Errorf("%s: %v does not name %q", name, err, tt.named)
		}
		if tt.text == LastRun && !strings.Contains(asked, "project=web-shop") {
			t.Errorf("%s: asked %s", name, asked)
		}
	}
}

// @last is the last submission from this machine, even if the coordinator names another run: its id is derived from the
// signed text.
func TestTheLastRunIsThatOfTheLastSubmission(t *testing.T) {
	text, err := (&identity.Payload{
		Format: identity.FormatV2, Cluster: writ.ClusterID(strings.Repeat("a", 64)), Datacenter: "0192f6c2-0000-7000-8000-00000000000a",
		Project: "0192f6c2-0000-7000-8000-0000000000c1", ProjectName: "web-shop", Roster: 1, RosterDigest: writ.Digest{1}, Signer: "alice", MaxCalls: 1,
		Created: time.Now(), Expires: time.Now().Add(time.Hour), Deadline: time.Hour, Engine: "tengo/2.17.0 api/1", Allow: []string{"volume.create"}, Nonce: identity.NewNonce(),
		Script: identity.File{Name: "a.tengo", Text: []byte("x := 1\n")},
	}).Text()
	if err != nil {
		t.Fatal(err)
	}
	armored, err := sshsig.NewSigner(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))).Sign(sshsig.ScriptNamespace, text)
	if err != nil {
		t.Fatal(err)
	}
	dir, asked := t.TempDir(), ""
	liked := api.Run{ID: writ.RunID(strings.Repeat("b", 26))}
	in := func(name, project string) *Client {
		c, err := New(config.Context{Name: name, Servers: []string{lists(t, &asked, liked)}, Project: project}, dir, Keys{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	in("one", "").Orders.Remember([]byte("unsigned text"))
	in("one", "").Orders.Remember(sshsig.Join(text, armored))
	own := writ.RunIDOf(writ.DigestOf(text))
	for _, tt := range []struct {
		context, project string
		want             writ.RunID
	}{
		{"one", "", own}, {"one", "web-shop", own}, {"one", "0192f6c2-0000-7000-8000-0000000000c1", own}, {"one", "bank", liked.ID}, {"two", "web-shop", liked.ID},
	} {
		id, sure, err := in(tt.context, tt.project).Runs.Find(t.Context(), LastRun)
		if err != nil || id != tt.want || sure != (tt.want == own) {
			t.Errorf("in context %s and project %q: %s, sure %v, %v; want %s", tt.context, tt.project, id, sure, err, tt.want)
		}
	}
	if err := os.WriteFile(in("one", "").Orders.lastPath(), []byte(`{"run":"../x"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if id, sure, err := in("one", "").Runs.Find(t.Context(), LastRun); err != nil || id != liked.ID || sure {
		t.Errorf("from a file that was changed: %s, sure %v, %v", id, sure, err)
	}
}

// A coordinator supplies the runs for one statement. Runs that do not match the request are rejected.
func TestListOmitsUnrequestedRuns(t *testing.T) {
	script, deployment, since := "web.tengo", "web", time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	asked := api.ListRunsParams{
		Project: api.Given("shop"), Datacenter: api.Given("vienna"), Signer: api.Given("alice"), State: []api.RunState{api.RunStateRunning}, Script: &script, Deployment: &deployment, Since: &since,
	}
	run := api.Run{Project: "shop", Datacenter: "vienna", Signer: "alice", State: api.RunStateRunning, Script: script, Deployment: deployment, Created: since}
	if err := Selected([]api.Run{run, run}, asked); err != nil {
		t.Error(err)
	}
	if err := Selected([]api.Run{run}, api.ListRunsParams{}); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(r *api.Run){
		"project":    func(r *api.Run) { r.Project = "bank" },
		"datacenter": func(r *api.Run) { r.Datacenter = "graz" },
		"signer":     func(r *api.Run) { r.Signer = "bob" },
		"state":      func(r *api.Run) { r.State = api.RunStateFailed },
		"script":     func(r *api.Run) { r.Script = "other.tengo" },
		"deployment": func(r *api.Run) { r.Deployment = "" },
		"time":       func(r *api.Run) { r.Created = since.Add(-time.Second) },
	} {
		other := run
		change(&other)
		if err := Selected([]api.Run{run, other}, asked); writ.CodeOf(err) != writ.CodeUnverified {
			t.Errorf("a run with another %s: %v", name, err)
		}
	}
}

// A coordinator that shows an old run as a new one could add it to the runs that --since selects.
func TestOldRunIsNotSelectedByTime(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	signed := make(map[string][]byte) // by digest
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(api.SignedText{Signed: signed[strings.Split(r.URL.Path, "/")[3]]})
	}))
	defer server.Close()
	c, err := New(config.Context{Servers: []string{server.URL}}, t.TempDir(), Keys{})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		age  time.Duration // of the signature; the text expires an hour later
		want writ.Code
	}{
		"new":                    {time.Minute, ""},
		"signed before --since":  {50 * time.Minute, ""}, // it may have been submitted later
		"expired before --since": {2 * time.Hour, writ.CodeUnverified},
	} {
		text, err := (&identity.Payload{
			Format: identity.FormatV2, Cluster: writ.ClusterID(strings.Repeat("a", 64)), Datacenter: "0192f6c2-0000-7000-8000-00000000000a",
			Project: "0192f6c2-0000-7000-8000-0000000000c1", ProjectName: "web-shop", Roster: 1, RosterDigest: writ.Digest{1}, Signer: "alice", MaxCalls: 1,
			Created: now.Add(-tt.age), Expires: now.Add(time.Hour - tt.age), Deadline: time.Hour, Engine: "tengo/2.17.0 api/1", Allow: []string{"volume.create"}, Nonce: identity.NewNonce(),
			Script: identity.File{Name: "a.tengo", Text: []byte("x := 1\n")},
		}).Text()
		if err != nil {
			t.Fatal(err)
		}
		armored, err := sshsig.NewSigner(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))).Sign(sshsig.ScriptNamespace, text)
		if err != nil {
			t.Fatal(err)
		}
		digest := writ.DigestOf(text)
		signed[digest.String()] = sshsig.Join(text, armored)
		runs := []api.Run{{ID: writ.RunIDOf(digest), Payload: digest, Signer: "alice", Created: now}}
		since := now.Add(-30 * time.Minute)
		err = c.Runs.ProveSelected(t.Context(), runs, api.ListRunsParams{Since: &since})
		if writ.CodeOf(err) != tt.want {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		if err == nil && !runs[0].Created.Equal(now.Add(-tt.age)) {
			t.Errorf("%s: the time is %s, want the time of the signature", name, runs[0].Created)
		}
	}
}
