package saltest

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"writ"
	"writ/sal"
)

// goesOnBesideADamagedRecord damages the record of a resource in two ways. Only in the first case does the name of the
// resource stay readable. The driver must report the damage, serve the other resources, and be able to remove the
// damaged resource.
func goesOnBesideADamagedRecord(t *testing.T, e Suite) {
	const other = "bystander"
	h := e.newHost(t)
	h.must(h.do(t.Context(), e.Make, other, uidOf(other)))
	before := e.traces(h, h.dir)
	for _, damage := range []struct {
		name    string
		to      func(text []byte) []byte
		legible bool
	}{
		{"cut off", func(text []byte) []byte { return text[:len(text)-3] }, true},
		{"zeros", func(text []byte) []byte { return make([]byte, len(text)) }, false},
	} {
		h.expect(e.Make, writ.ChangeCreated)
		path := recordOf(h, h.subject())
		if path == "" {
			t.Skip("the driver has no record per resource")
		}
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, damage.to(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		h.restart(nil)

		if !h.listed(Resource(e.kind(), other)) {
			t.Errorf("%s: the other resource is not listed", damage.name)
		}
		if got := h.listed(h.subject()); got != damage.legible {
			t.Errorf("%s: listed %t, want %t", damage.name, got, damage.legible)
		}
		if again, err := h.do(t.Context(), e.Make, other, uidOf(other)); err != nil ||
			again.Change != writ.ChangeUnchanged {
			t.Errorf("%s: the other resource, made again: %q, %v", damage.name, again.Change, err)
		}
		isDamaged(h, damage.name, path, other)
		if damage.legible {
			refuseDamaged(h, e.remove(), "0192f6c2-7d3a-7000-9000-somebody-else", writ.CodeResourceConflict)
		}

		h.expect(e.remove(), writ.ChangeDeleted)
		if h.listed(h.subject()) {
			t.Errorf("%s: the resource is still listed", damage.name)
		}
		if diff := cmp.Diff(before, e.traces(h, h.dir), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: traces after the deletion:\n%s", damage.name, diff)
		}
		h.noOrphans(damage.name)
	}
	h.expect(e.Make, writ.ChangeCreated)
}

// isDamaged checks that the driver reports the subject's damaged record, and no other problem.
func isDamaged(h *host, how, path, other string) {
	h.Helper()
	for _, s := range append([]Step{h.suite.Make}, h.suite.Steps...) {
		refuseDamaged(h, s, uidOf(subject), writ.CodeRecordDamaged)
	}
	if _, err := h.driver.Observe(h.Context(), h.subject()); writ.CodeOf(err) != writ.CodeRecordDamaged {
		h.Errorf("%s: Observe returned %v", how, err)
	}
	keeper, ok := h.driver.(sal.Keeper)
	if !ok {
		return
	}
	if _, err := keeper.Keep(h.Context(), h.subject()); writ.CodeOf(err) != writ.CodeRecordDamaged {
		h.Errorf("%s: Keep returned %v", how, err)
	}
	if drift, err := keeper.Keep(h.Context(), Resource(h.suite.kind(), other)); err != nil || len(drift) > 0 {
		h.Errorf("%s: Keep of the other resource returned %v, %v", how, drift, err)
	}
	orphans, err := keeper.Orphans(h.Context())
	want := []sal.Orphan{{Kind: "damaged record", Name: path, Of: h.subject().HostName()}}
	if diff := cmp.Diff(want, orphans); err != nil || diff != "" {
		h.Errorf("%s: orphans %v:\n%s", how, err, diff)
	}
}

// refuseDamaged executes a step that must fail with a code. Unlike host.refuse, it does not observe the subject, because
// that fails too.
func refuseDamaged(h *host, s Step, uid writ.UID, want writ.Code) {
	h.Helper()
	if _, err := h.do(h.Context(), s, subject, uid); writ.CodeOf(err) != want {
		h.Errorf("%s: got %v, want %s", s.Operation, err, want)
	}
}

// recordOf returns the record file of a resource, in the format of package sal, or "".
func recordOf(h *host, resource writ.ResourceID) string {
	h.Helper()
	var found []string
	if err := filepath.WalkDir(h.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == resource.HostName()+".json" {
			found = append(found, path)
		}
		return nil // a file that disappears is not a record
	}); err != nil {
		h.Fatal(err)
	}
	slices.Sort(found)
	if len(found) == 0 {
		return ""
	}
	return found[0]
}
