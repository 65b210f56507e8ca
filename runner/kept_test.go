package runner_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ"
	"writ/runner/member"
)

// A node with the files of another node would ask its supervisor in vain, without an end.
//
// Promise: Failures: A node does not start with damaged files or with files of another node.
// How: The record of the membership has the public keys. The journal and the directory of the drivers have the node's
// id.
// Also: runner/journal.TestForeignJournalIsRefused, TestForeignDriverRecordsAreRefused.
func TestForeignNodeFilesAreRefused(t *testing.T) {
	s := newFixture(t)
	other := t.TempDir()
	s.join(other)
	for name, spoil := range map[string]func(path string) error{
		"swapped": func(path string) error {
			text, err := os.ReadFile(filepath.Join(other, filepath.Base(path)))
			must(t, err)
			return os.WriteFile(path, text, 0o600)
		},
		"damaged": func(path string) error { return os.WriteFile(path, []byte("{damaged"), 0o600) },
	} {
		for _, file := range []string{"node.key", "age.key", "member.json"} {
			t.Run(name+" "+file, func(t *testing.T) {
				dir := t.TempDir()
				s.join(dir)
				must(t, spoil(filepath.Join(dir, file)))
				_, err := member.Join(t.Context(), member.Joining{Dir: dir, API: s})
				if writ.CodeOf(err) != writ.CodeDataIncomplete || !strings.Contains(err.Error(), dir) ||
					!strings.Contains(writ.AsError(err).Hint, "writ node remove") {
					t.Errorf("the node starts with %v, hint %q", err, writ.AsError(err).Hint)
				}
			})
		}
	}
}

// Earlier versions stored no public keys.
func TestOlderMembershipGetsItsKeys(t *testing.T) {
	s := newFixture(t)
	dir := t.TempDir()
	s.join(dir)
	path := filepath.Join(dir, "member.json")
	text, err := os.ReadFile(path)
	must(t, err)
	older := strings.Replace(string(text), `"keys"`, `"unknown"`, 1)
	if older == string(text) {
		t.Fatalf("the record has no keys: %s", text)
	}
	must(t, os.WriteFile(path, []byte(older), 0o600))
	m, err := member.Join(t.Context(), member.Joining{Dir: dir, API: s})
	must(t, err)
	must(t, m.Change(func(*member.Record) {}))
	if text, err = os.ReadFile(path); err != nil || !strings.Contains(string(text), `"keys"`) {
		t.Errorf("after a change the record is %s, %v", text, err)
	}
}

// The directory of a node's drivers gets the id of the node at its first start.
func TestDriverRecordsAreBound(t *testing.T) {
	s := newFixture(t)
	var hosts []string
	var members []*member.Member
	for range 2 {
		dir := t.TempDir()
		m, host := s.join(dir), filepath.Join(dir, "host")
		must(t, os.Mkdir(host, 0o700))
		must(t, m.BindDrivers(host))
		must(t, m.BindDrivers(host)) // at each start
		must(t, member.CheckDrivers(dir, host))
		hosts, members = append(hosts, host), append(members, m)
	}
	must(t, os.Rename(hosts[0], hosts[0]+".away"))
	must(t, os.Rename(hosts[1], hosts[0]))
	must(t, os.Rename(hosts[0]+".away", hosts[1]))
	for i, m := range members {
		for _, err := range []error{member.CheckDrivers(m.Dir(), hosts[i]), m.BindDrivers(hosts[i])} {
			if writ.CodeOf(err) != writ.CodeDataIncomplete || !strings.Contains(err.Error(), string(members[1-i].Node())) ||
				!strings.Contains(writ.AsError(err).Hint, "swap them back") {
				t.Errorf("after the swap: %v, hint %q", err, writ.AsError(err).Hint)
			}
		}
	}
}
