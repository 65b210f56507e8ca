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

// secrets are what drivers get instead of their names, and what must be found nowhere afterwards.
var secrets = map[catalog.Secret]string{
	"suite@1": "canary-Xo9-7f2c81d4a6",
	"suite@2": "canary-Qp3-e05b97c21f",
}

// withSecret returns a step that gives a secret for every field that takes one, and whether there is any.
func (s Step) withSecret(name catalog.Secret) (Step, bool) {
	o, ok := catalog.Lookup(s.Operation)
	if !ok {
		return s, false
	}
	args, given := maps.Clone(s.Args), false
	if args == nil {
		args = make(map[string]any)
	}
	form := map[string]any{"secret": string(name)}
	for _, f := range o.Args {
		switch {
		case f.Type == catalog.String && f.Secret:
			args[f.Name], given = form, true
		case f.Type == catalog.Map && f.Elem.Secret:
			args[f.Name], given = map[string]any{"PROBE": form}, true
		}
	}
	return Step{s.Operation, args}, given
}

// keepsNoSecret gives secrets wherever the driver's operations take them. The value is for the tool alone: nothing that the driver leaves
// on its host, says or answers has it; and another version of a secret is a change.
func (e Suite) keepsNoSecret(t testing.TB) {
	h := e.newHost(t)
	h.restart(func(step string) { h.keeps("before it does " + step) })
	first, takes := e.Make.withSecret("suite@1")
	h.expect(first, writ.ChangeCreated)
	h.expect(first, writ.ChangeUnchanged)
	h.keeps("after it was made")
	if takes {
		h.changesSecret(first)
	}
	for _, s := range e.Steps {
		if s, ok := s.withSecret("suite@1"); ok {
			h.must(h.step(s))
			h.keeps("after " + s.Operation)
		}
	}
	h.silent("what is observed", fmt.Sprint(h.observe(subject)))
	h.expect(e.remove(), writ.ChangeDeleted)
	h.suite.Handed = nil
	h.keeps("after it was deleted")
}

// changesSecret makes the subject with another version of the secrets that it has.
func (h *host) changesSecret(before Step) {
	h.Helper()
	next, _ := h.suite.Make.withSecret("suite@2")
	_, immutable := h.suite.operation().Args.Changed(before.Args, next.Args)
	if len(immutable) > 0 {
		h.refuse(next, subject, uidOf(subject), writ.CodeImmutableField)
		return
	}
	h.expect(next, writ.ChangeUpdated)
	h.expect(next, writ.ChangeUnchanged)
	h.keeps("after the secret was changed")
}

// keeps looks for the secrets in everything that is on the host.
func (h *host) keeps(when string) {
	h.Helper()
	err := filepath.WalkDir(h.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		h.silent(when+" the name of a file", path)
		if !d.Type().IsRegular() || h.handed(path, d) {
			return nil
		}
		text, err := readStart(path)
		if errors.Is(err, syscall.EINVAL) { // a namespace that a file keeps has no text
			err = nil
		}
		h.silent(fmt.Sprintf("%s the file %s", when, path), string(text))
		return err
	})
	if err != nil {
		h.Error(err)
	}
}

// readStart reads a file, of a big one only the start: disks of machines are long and have no words of drivers in them.
func readStart(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, mib))
}

// handed reports whether the driver hands values to its tool in a file. Nobody but its owner may read that.
func (h *host) handed(path string, d fs.DirEntry) bool {
	h.Helper()
	for _, pattern := range h.suite.Handed {
		if ok, _ := filepath.Match(filepath.Join(h.dir, pattern), path); !ok {
			continue
		}
		if info, err := d.Info(); err == nil && info.Mode().Perm()&0o077 != 0 {
			h.Errorf("others than its owner may use %s: %s", path, info.Mode())
		}
		return true
	}
	return false
}

// silent fails the suite if a text has a secret in it, as it is or in a usual encoding.
func (h *host) silent(what, text string) {
	h.Helper()
	for name, value := range secrets {
		for _, form := range []string{value, hex.EncodeToString([]byte(value)), base64.StdEncoding.EncodeToString([]byte(value))} {
			if strings.Contains(text, form) {
				h.Errorf("%s shows the value of %s", what, name)
			}
		}
	}
}
