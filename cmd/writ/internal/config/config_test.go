package config

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/identity"
	"writ/identity/sshsig"
)

const cluster = writ.ClusterID("6f1c000000000000000000000000000000000000000000000000000000000000")

func TestConfigurationSurvivesSaving(t *testing.T) {
	f := &File{Path: filepath.Join(t.TempDir(), "new", "config.yaml"), Current: "work", Contexts: []Context{
		{Name: "home", Servers: []string{"http://127.0.0.1:7440"}, Cluster: cluster},
		{Name: "work", Servers: []string{"https://a.example", "https://b.example"}, Cluster: cluster, Project: "web", Key: "agent"},
	}}
	if err := f.Save(); err != nil {
		t.Fatal(err)
	}
	got, err := Load(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f, got); diff != "" {
		t.Error(diff)
	}
	info, err := os.Stat(f.Path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; others must not read it", info.Mode(), err)
	}
}

func TestContextIsChosen(t *testing.T) {
	two := &File{Current: "b", Contexts: []Context{
		{Name: "a", Servers: []string{"http://a"}, Project: "pa"},
		{Name: "b", Servers: []string{"http://b"}, Project: "pb"},
	}}
	for _, tt := range []struct {
		what string
		file *File
		name string
		over Context
		want Context
	}{
		{"the current one", two, "", Context{}, two.Contexts[1]},
		{"the named one", two, "a", Context{}, two.Contexts[0]},
		{"the only one", &File{Contexts: two.Contexts[:1]}, "", Context{}, two.Contexts[0]},
		{"none", &File{}, "", Context{}, Context{Servers: []string{DefaultServer}}},
		{"flags first", two, "a", Context{Servers: []string{"http://c"}, Key: "k"}, Context{Name: "a", Servers: []string{"http://c"}, Project: "pa", Key: "k", Alone: true}},
	} {
		got, err := tt.file.Choose(tt.name, tt.over)
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", tt.what, err, diff)
		}
	}
	if _, err := two.Choose("c", Context{}); writ.CodeOf(err) != writ.CodeNotFound {
		t.Errorf("unknown context: %v, want NOT_FOUND", err)
	}
	if _, err := two.Choose("a", Context{Servers: []string{"127.0.0.1:1"}}); writ.CodeOf(err) != writ.CodeUsage {
		t.Errorf("no URL: %v, want USAGE", err)
	}
}

func TestDamagedConfigurationIsRefusedWithItsPlace(t *testing.T) {
	for name, text := range map[string]string{
		"no YAML":       "contexts: [",
		"unknown key":   "contexts: []\nsecret: x\n",
		"short cluster": "contexts:\n- name: a\n  servers: []\n  cluster: 6f1c\n",
		"no URL":        "contexts:\n- name: a\n  servers: [here]\n",
	} {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(path)
		if writ.CodeOf(err) != writ.CodeUsage || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want USAGE and the path", name, err)
		}
	}
}

// TestAKeyIsNotKept puts the text of a key into fields that name one, as a CI variable easily does.
func TestAKeyIsNotKept(t *testing.T) {
	const canary = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW"
	key := "-----BEGIN OPENSSH PRIVATE KEY-----\n" + canary + "\n-----END OPENSSH PRIVATE KEY-----\n"
	for name, c := range map[string]Context{
		"as the key": {Name: "a", Key: key}, "in one line": {Name: "a", Key: strings.ReplaceAll(key, "\n", " ")}, "without its frame": {Name: "a", Key: canary},
		"as the project": {Name: "a", Project: key}, "as a server": {Name: "a", Servers: []string{"https://a.example/" + key}},
		"as the name": {Name: key}, "a key of age": {Name: "a", Key: "AGE-SECRET-KEY-1QQQ"}, "a token": {Name: "a", Project: "writ1.abcdefgh.abcdefghijkl"},
	} {
		f := &File{Path: filepath.Join(t.TempDir(), "config.yaml")}
		if err := f.Add(c); writ.CodeOf(err) != writ.CodeUsage || len(f.Contexts) != 0 || writ.AsError(err).Hint == "" {
			t.Errorf("%s is put in: %v", name, err)
		}
		f.Contexts = []Context{c} // as stored by an earlier version
		if err := f.Save(); err != nil {
			t.Fatal(err)
		}
		if got, err := Load(f.Path); writ.CodeOf(err) != writ.CodeUsage || got != nil || !strings.Contains(err.Error(), f.Path) || writ.AsError(err).Hint == "" {
			t.Errorf("%s is loaded: %v", name, err)
		}
	}
}

// signedRosters returns a chain of signed rosters.
func signedRosters(t *testing.T, versions int) (writ.ClusterID, [][]byte) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer := sshsig.NewSigner(key)
	now := time.Now().UTC().Truncate(time.Second)
	r := &identity.Roster{
		Cluster: identity.ClusterOf(signer.PublicKey()), Version: 1, Created: now, Expires: now.Add(time.Hour),
		Root: signer.PublicKey(), Threshold: 1, Operators: []string{"alice"},
		Principals: []identity.Principal{{Name: "alice", Kind: identity.Person, State: identity.Active,
			Keys: []identity.PrincipalKey{{Key: signer.PublicKey(), State: identity.Active}}}},
	}
	var signed [][]byte
	for range versions {
		text, err := identity.SignRoster(r, signer)
		if err != nil {
			t.Fatal(err)
		}
		signed = append(signed, text)
		if r, err = r.Successor(now); err != nil {
			t.Fatal(err)
		}
	}
	return r.Cluster, signed
}

func TestRostersGoForwardOnly(t *testing.T) {
	cluster, signed := signedRosters(t, 12)
	r := RostersIn(t.TempDir(), cluster)
	if latest, err := r.Latest(); latest != nil || err != nil {
		t.Fatalf("empty: %v, %v", latest, err)
	}
	if _, err := r.Add(signed[1]); writ.CodeOf(err) != writ.CodeRosterInvalid {
		t.Errorf("version 2 first: %v, want ROSTER_INVALID", err)
	}
	for range 2 { // adding them again has no effect
		if latest, err := r.Add(signed...); err != nil || latest.Version != 12 {
			t.Fatalf("all: %v, %v", latest, err)
		}
	}
	have, err := r.Links()
	if err != nil || len(have) != 2 {
		t.Errorf("%d files are kept of 12 versions with the same operators, %v", len(have), err)
	}
	if again, err := identity.VerifyRosters(r.Cluster, have, time.Time{}); err != nil || again.Version != 12 {
		t.Errorf("the files prove %v, %v", again, err)
	}
	_, other := signedRosters(t, 1)
	if _, err := r.Add(other...); err == nil {
		t.Error("the roster of another cluster was kept")
	}
	if found, err := FindRosters(filepath.Dir(filepath.Dir(r.Dir))); err != nil || found != r {
		t.Errorf("found %v, %v", found, err)
	}
}

// Earlier versions of writ stored one file per roster version. Adding a roster removes the files that are no longer
// needed.
func TestOldRosterFilesAreCompacted(t *testing.T) {
	cluster, signed := signedRosters(t, 12)
	r := RostersIn(t.TempDir(), cluster)
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for i, text := range signed[:11] {
		if err := os.WriteFile(r.Path(i+1), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if latest, err := r.Latest(); err != nil || latest.Version != 11 {
		t.Fatalf("before: %v", err)
	}
	if latest, err := r.Add(signed[11]); err != nil || latest.Version != 12 {
		t.Fatalf("add: %v", err)
	}
	if files, err := os.ReadDir(r.Dir); err != nil || len(files) != 2 {
		t.Errorf("%d files, %v", len(files), err)
	}
	if latest, err := r.Latest(); err != nil || latest.Version != 12 {
		t.Errorf("after: %v", err)
	}
}

func TestFirstRosterMustBeThatOfTheCluster(t *testing.T) {
	_, signed := signedRosters(t, 1)
	r := RostersIn(t.TempDir(), cluster)
	if _, err := r.Add(signed...); writ.CodeOf(err) != writ.CodeWrongCluster {
		t.Errorf("%v, want WRONG_CLUSTER", err)
	}
	if latest, _ := r.Latest(); latest != nil {
		t.Error("it was kept")
	}
	// A mistyped cluster id must not create a folder, not even an empty one: the directory would then belong to two
	// clusters.
	if found, err := FindRosters(filepath.Dir(filepath.Dir(r.Dir))); writ.CodeOf(err) != writ.CodeNotFound {
		t.Errorf("found %v, %v; want NOT_FOUND", found, err)
	}
}

func TestDirectoryAsConfigurationIsAMistakeOfThePerson(t *testing.T) {
	if _, err := Load(t.TempDir()); writ.CodeOf(err) != writ.CodeUsage {
		t.Errorf("%v, want USAGE", err)
	}
}

func TestChangedRosterOnDiskIsNoticed(t *testing.T) {
	cluster, signed := signedRosters(t, 1)
	r := RostersIn(t.TempDir(), cluster)
	if _, err := r.Add(signed...); err != nil {
		t.Fatal(err)
	}
	for _, changed := range []string{
		strings.Replace(string(signed[0]), "threshold: 1", "threshold: 2", 1), string(signed[0][:100]), "", "damaged",
	} {
		if err := os.WriteFile(r.Path(1), []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := r.Latest()
		if writ.CodeOf(err) != writ.CodeDataIncomplete || !strings.Contains(writ.AsError(err).Message, r.Dir) {
			t.Errorf("%.20q: %v", changed, err)
		}
	}
}
