package saltest

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"writ"
	"writ/sal/catalog"
)

// secrets maps the secrets to values that must not appear anywhere.
var secrets = map[catalog.Secret]string{
	"suite@1": "canary-Xo9-7f2c81d4a6",
	"suite@2": "canary-Qp3-e05b97c21f",
	// For fields with one value. The prefix #! makes the values valid user-data.
	"text@1": "#!canary-Vk1-93d0ab64e7",
	"text@2": "#!canary-Ts8-1bc67f0e52",
}

// withSecret returns a step with the given version of a secret in every field that accepts secrets. It reports whether
// there is such a field.
func (s Step) withSecret(version int) (Step, bool) {
	o, ok := catalog.Lookup(s.Operation)
	if !ok {
		return s, false
	}
	args, given := maps.Clone(s.Args), false
	if args == nil {
		args = make(map[string]any)
	}
	form := func(name string) any { return map[string]any{"secret": fmt.Sprintf("%s@%d", name, version)} }
	for _, f := range o.Args {
		switch {
		case f.Type == catalog.String && f.Secret:
			args[f.Name], given = form("text"), true
		case f.Type == catalog.Map && f.Elem.Secret:
			args[f.Name], given = map[string]any{"PROBE": form("suite")}, true
		}
	}
	return Step{s.Operation, args}, given
}

// keepsNoSecret passes secrets to all operations that accept them. The driver may pass the values only to its tool: it
// must not store, log or return them. Another version of a secret must be a change.
func keepsNoSecret(t testing.TB, e Suite) {
	h := e.newHost(t)
	h.restart(func(step string) { h.leaks.inFiles("before step " + step) })
	first, takes := e.Make.withSecret(1)
	h.expect(first, writ.ChangeCreated)
	h.expect(first, writ.ChangeUnchanged)
	h.leaks.inFiles("after the creation")
	if takes {
		changesSecret(h, first)
	}
	for _, s := range e.Steps {
		if s, ok := s.withSecret(1); ok {
			h.must(h.step(s))
			h.leaks.inFiles("after " + s.Operation)
		}
	}
	h.leaks.inText("the observation", fmt.Sprint(h.observe(subject)))
	h.expect(e.remove(), writ.ChangeDeleted)
	if s, ok := e.Run.withSecret(1); ok {
		h.must(h.step(s))
	}
	h.leaks.handed = nil
	h.leaks.inFiles("after the deletion")
}

// changesSecret repeats Make with another version of the secrets.
func changesSecret(h *host, before Step) {
	h.Helper()
	next, _ := h.suite.Make.withSecret(2)
	_, immutable := h.suite.operation().Args.Changed(before.Args, next.Args)
	if len(immutable) > 0 {
		h.refuse(next, subject, uidOf(subject), writ.CodeImmutableField)
		return
	}
	h.expect(next, writ.ChangeUpdated)
	h.expect(next, writ.ChangeUnchanged)
	h.leaks.inFiles("after the secret was changed")
}

// leaks searches for values of secrets. Each finding is a test error.
type leaks struct {
	testing.TB
	dir    string   // directory of the host
	handed []string // Suite.Handed
}

// inFiles searches in all files on the host.
func (l *leaks) inFiles(when string) {
	l.Helper()
	err := filepath.WalkDir(l.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		l.inText(when+" the name of a file", path)
		if !d.Type().IsRegular() || l.isHanded(path, d) {
			return nil
		}
		text, err := readStart(path)
		if errors.Is(err, syscall.EINVAL) { // a bind-mounted namespace cannot be read
			err = nil
		}
		l.inText(fmt.Sprintf("%s the file %s", when, path), string(text))
		return err
	})
	if err != nil {
		l.Error(err)
	}
}

// readStart reads the start of a file: disks of machines are large and contain no text of drivers.
func readStart(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, mib))
}

// isHanded reports whether a file matches Suite.Handed, so that it may contain values. It is a test error if users
// other than the owner have access to the file.
func (l *leaks) isHanded(path string, d fs.DirEntry) bool {
	l.Helper()
	for _, pattern := range l.handed {
		if ok, _ := filepath.Match(filepath.Join(l.dir, pattern), path); !ok {
			continue
		}
		if info, err := d.Info(); err == nil && info.Mode().Perm()&0o077 != 0 {
			l.Errorf("%s is accessible to other users: %s", path, info.Mode())
		}
		return true
	}
	return false
}

// inText searches a text for the values, plain or in a common encoding.
func (l *leaks) inText(what, text string) {
	l.Helper()
	for name, value := range secrets {
		for _, form := range []string{
			value, hex.EncodeToString([]byte(value)), base64.StdEncoding.EncodeToString([]byte(value)),
		} {
			if strings.Contains(text, form) {
				l.Errorf("%s shows the value of %s", what, name)
			}
		}
	}
}
