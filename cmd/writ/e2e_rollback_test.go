package main

import (
	"crypto/ed25519"
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/coord/api"
	"writ/identity/sshsig"
	"writ/internal/test/ociregistry"
	"writ/internal/test/testenv"
)

// A coordinator that shows another text, run or revision gets no signature for it.
//
// Promise: Signatures and rosters: A coordinator cannot choose the script that a rollback signs: each earlier text is
// proved to be the revision that its signer signed and that the datacenter ran.
// How: The client verifies the signature by the roster, the deployment and base revision in the signed text, and the
// supervisor's summary of exactly this run.
func TestCoordinatorCannotChooseRollback(t *testing.T) {
	t.Parallel()
	s := testcluster.New(t)
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: testenv.Redis(t).URL, Speed: "0"})
	scripts := map[string]string{
		"one.tengo": "x := 1\n", "two.tengo": "x := 2\n", "bad.tengo": "run := import(\"run\")\nrun.fail(\"bad\")\n",
		"now.tengo": "x := 4\n", "first.tengo": "x := 0\n", "other.tengo": "x := 5\n", "never.tengo": "x := 6\n",
		"stale.tengo": "x := 7\n",
	}
	for name, text := range scripts {
		s.Script(name, text)
	}
	submit := func(name, deployment string) (id string) {
		out, said, code := s.Try("submit", name, "--deployment", deployment, "-o", "name")
		if code != 0 && name != "bad.tengo" {
			t.Fatalf("%s: exit %d\n%s%s", name, code, out, said)
		}
		return strings.TrimSpace(s.Writ("run", "list", "--script", name, "-o", "name"))
	}
	one, two := submit("one.tengo", "web"), submit("two.tengo", "web")
	s.Writ("sign", "never.tengo", "--deployment", "web@1", "-o", "never.writ") // by the same person, for the same revision
	s.Writ("sign", "stale.tengo", "--deployment", "web@1", "-o", "stale.writ")
	bad := submit("bad.tengo", "web")
	submit("now.tengo", "web")
	submit("first.tengo", "other")
	other := submit("other.tengo", "other") // revision 2, too

	never, err := os.ReadFile(filepath.Join(s.Dir, "never.writ"))
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := sshsig.Split(never)
	if err != nil {
		t.Fatal(err)
	}
	unsubmitted := writ.RunIDOf(writ.DigestOf(text))
	mallory, err := sshsig.NewSigner(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))).Sign(sshsig.ScriptNamespace, text)
	if err != nil {
		t.Fatal(err)
	}
	forged := sshsig.Join(text, mallory)

	runOf := func(id string) (run map[string]any) {
		t.Helper()
		known, err := s.Client.Runs.Get(t.Context(), writ.RunID(id))
		if err == nil {
			var text []byte
			if text, err = json.Marshal(known); err == nil {
				err = json.Unmarshal(text, &run)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	// shows changes the run with this id in each answer, and replaces its signed text unless signed is nil.
	shows := func(id string, change func(run map[string]any), signed []byte) func(string, any) any {
		payload, _ := runOf(id)["payload"].(string)
		return func(path string, answer any) any {
			each(answer, func(o map[string]any) {
				if o["id"] == id {
					change(o)
				}
				if _, has := o["signed"]; has && signed != nil && strings.Contains(path, payload) {
					o["signed"] = signed
				}
			})
			return answer
		}
	}
	is := func(fields map[string]any) func(map[string]any) {
		return func(run map[string]any) {
			maps.Copy(run, fields)
		}
	}
	lies := map[string]struct {
		to   string
		lie  func(string, any) any
		code writ.Code
	}{
		"the text of another person":     {"2", shows(two, is(map[string]any{"id": unsubmitted}), forged), writ.CodeSignerUnknown},
		"a text that was never accepted": {"2", shows(two, is(map[string]any{"id": unsubmitted}), never), writ.CodeUnverified},
		"another text for the same run":  {"2", shows(two, is(nil), never), writ.CodeUnverified},
		"an older revision":              {"2", swap("id", one, two, "revision"), writ.CodeUnverified},
		"another deployment": {"2", func(path string, answer any) any {
			if o, is := answer.(map[string]any); is && path == "/v1/runs" {
				run := runOf(other)
				run["deployment"], run["revision"] = "web", 2
				if items, _ := o["items"].([]any); len(items) > 0 { // not the list of open runs
					o["items"] = append([]any{run}, items...)
				}
			}
			return answer
		}, writ.CodeUnverified},
		"an end without a proof":      {"2", shows(two, func(run map[string]any) { delete(run, "summary") }, nil), writ.CodeUnverified},
		"a failed run that succeeded": {"", shows(bad, is(map[string]any{"state": "succeeded"}), nil), writ.CodeUnverified},
	}
	l := newLiar(t, s.URL)
	s.AlsoAt(l.URL)
	rollBack := func(to string) (said string, code int) {
		args := []string{"deployment", "rollback", "web", "--yes", "--server", l.URL}
		if to != "" {
			args = append(args, "--to", to)
		}
		_, said, code = s.Try(args...)
		return said, code
	}
	for name, tt := range lies {
		l.lies(tt.lie)
		if said, code := rollBack(tt.to); code != tt.code.Info().Exit || !strings.Contains(said, string(tt.code)) {
			t.Errorf("%s: exit %d, want %s\n%s", name, code, tt.code, said)
		}
		if got := s.Writ("deployment", "history", "web", "-o", "name"); got != "4\n3\n2\n1\n" {
			t.Fatalf("%s: the revisions are %q", name, got)
		}
	}
	if _, said, code := s.Try("submit", "stale.writ"); code != writ.CodeConflict.Info().Exit {
		t.Errorf("a text for an earlier revision: exit %d\n%s", code, said)
	}
	refused := strings.TrimSpace(s.Writ("run", "list", "--script", "stale.tengo", "-o", "name"))
	stale, err := os.ReadFile(filepath.Join(s.Dir, "stale.writ"))
	if err != nil {
		t.Fatal(err)
	}
	for _, accepted := range []any{nil, runOf(one)["accepted"]} {
		succeeded := shows(refused, is(map[string]any{"state": "succeeded", "revision": 2, "accepted": accepted}), nil)
		payload, _ := runOf(refused)["payload"].(string)
		l.lies(func(path string, answer any) any {
			if strings.Contains(path, payload) { // it keeps no refused text
				return api.SignedText{Signed: stale}
			}
			return succeeded(path, answer)
		})
		if said, code := rollBack(""); code != writ.ExitUnverified || !strings.Contains(said, refused) {
			t.Errorf("a refused text that succeeded, accepted at %v: exit %d\n%s", accepted, code, said)
		}
	}
	l.lies(nil)
	if said, code := rollBack("2"); code != 0 {
		t.Errorf("without a lie: exit %d\n%s", code, said)
	}
	if got := s.Writ("deployment", "script", "web"); got != scripts["two.tengo"] {
		t.Errorf("the script is now %q", got)
	}
}

// The digest that was signed then is used again, and an image that is gone is found before a text is signed.
func TestRollbackKeepsImages(t *testing.T) {
	t.Parallel()
	s, registry := testcluster.New(t), ociregistry.StartPlain(t)
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: testenv.Redis(t).URL, Nodes: 1, Speed: "0"})
	image := registry.Host + "/team/web:1"
	s.Script("web.tengo", `container := import("container")
container.create("web", {image: "`+image+`"})
`)
	first := registry.Push(t, "team/web:1", empty.Image)
	s.Writ("submit", "web.tengo", "--deployment", "web")
	other, err := mutate.Config(empty.Image, v1.Config{Env: []string{"VERSION=2"}})
	if err != nil {
		t.Fatal(err)
	}
	second := registry.Push(t, "team/web:1", other)
	s.Writ("submit", "web.tengo", "--deployment", "web")

	answer := func(status int) {
		registry.Before(func(w http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.Path, "/manifests/") {
				w.WriteHeader(status)
				return true
			}
			return false
		})
	}
	rollBack := func(exit int, texts ...string) {
		t.Helper()
		out, said, code := s.Try("deployment", "rollback", "web", "--yes")
		for _, text := range texts {
			if code != exit || !strings.Contains(said, text) {
				t.Errorf("exit %d, want %d and %q\n%s%s", code, exit, text, out, said)
			}
		}
	}
	answer(http.StatusNotFound)
	rollBack(writ.ExitNotFound, registry.Host+" no longer has the image "+image+"@"+first+" [IMAGE_GONE]",
		"hint: push the image with this digest again")
	if got := s.Writ("deployment", "history", "web", "-o", "name"); got != "2\n1\n" {
		t.Fatalf("a text was signed: %q", got)
	}
	answer(http.StatusForbidden)
	rollBack(0, "cannot check whether "+registry.Host+" still has "+image+"@"+first,
		"--- images@2", "-"+image+"@"+second, "+"+image+"@"+first)
	if out := s.Writ("deployment", "script", "web", "-o", "json"); !strings.Contains(out, first) || strings.Contains(out, second) {
		t.Errorf("the images are %s", out)
	}
}

// While a registry does not answer, the author can sign the digest of the last revision again. The command never does so
// by itself: the author may expect that the tag has moved.
func TestSubmitOffersDigestOfLastRevision(t *testing.T) {
	t.Parallel()
	s, registry := testcluster.New(t), ociregistry.StartPlain(t)
	s.Add(testcluster.Datacenter{Name: "dc1", Redis: testenv.Redis(t).URL, Nodes: 1, Speed: "0"})
	web, side := registry.Host+"/team/web:1", registry.Host+"/team/side:1"
	first := registry.Push(t, "team/web:1", empty.Image)
	registry.Push(t, "team/side:1", empty.Image)
	script := func(version string) {
		s.Script("web.tengo", `container := import("container")
container.create("web", {image: "`+web+`", env: {VERSION: "`+version+`"}})
container.create("side", {image: "`+side+`"})
`)
	}
	script("1")
	s.Writ("submit", "web.tengo", "--deployment", "web")
	registry.Before(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	script("2")
	flags := "--image " + web + "@" + first + " --image " + side + "@" + first
	hint := "if revision 1 of web has the image that you mean, sign its digest again: add "
	_, said, code := s.Try("submit", "web.tengo", "--deployment", "web")
	if at := strings.Index(said, hint); code != writ.ExitUnreachable || at < 0 || !sameWords(said[at+len(hint):], flags) {
		t.Errorf("submit: exit %d, want the flags %s\n%s", code, flags, said)
	}
	if _, said, code := s.Try("plan", "web.tengo", "--deployment", "web"); code != 0 || !strings.Contains(said, hint) {
		t.Errorf("plan: exit %d\n%s", code, said)
	}
	if got := s.Writ("deployment", "history", "web", "-o", "name"); got != "1\n" {
		t.Fatalf("a text was signed: %q", got)
	}
	if _, said, code := s.Try("submit", "web.tengo", "--deployment", "other"); code != writ.ExitUnreachable ||
		!strings.Contains(said, "if you know the digest") {
		t.Errorf("a new deployment: exit %d\n%s", code, said)
	}
	s.Writ(append([]string{"submit", "web.tengo", "--deployment", "web"}, strings.Fields(flags)...)...)
	if out := s.Writ("deployment", "script", "web", "-o", "json"); !strings.Contains(out, web+"@"+first) {
		t.Errorf("revision 2 has the images of %s", out)
	}
}

// sameWords reports whether the first line of a text has these words, in any order.
func sameWords(text, words string) bool {
	line, _, _ := strings.Cut(text, "\n")
	return slices.Equal(slices.Sorted(slices.Values(strings.Fields(line))), slices.Sorted(slices.Values(strings.Fields(words))))
}
