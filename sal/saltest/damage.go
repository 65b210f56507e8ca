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

// goesOnBesideADamagedRecord damages the record of a resource in two ways: the name stays readable in the first case
// only. The driver must report the damage, serve the other resources, and remove the damaged one.
func (e Suite) goesOnBesideADamagedRecord(t *testing.T) {
	const other = "bystander"
	h := e.newHost(t)
	h.must(h.do(t.Context(), e.Make, other, uidOf(other)))
	before := h.traces()
	for _, damage := range []struct {
		name    string
		to      func(text []byte) []byte
		legible bool
	}{
		{"cut off", func(text []byte) []byte { return text[:len(text)-3] }, true},
		{"zeros", func(text []byte) []byte { return make([]byte, len(text)) }, false},
	} {
		h.expect(e.Make, writ.ChangeCreated)
		path := h.recordOf(Resource(e.kind(), subject))
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
		if got := h.listed(Resource(e.kind(), subject)); got != damage.legible {
			t.Errorf("%s: listed %t, want %t", damage.name, got, damage.legible)
		}
		if again, err := h.do(t.Context(), e.Make, other, uidOf(other)); err != nil ||
			again.Change != writ.ChangeUnchanged {
			t.Errorf("%s: the other resource, made again: %q, %v", damage.name, again.Change, err)
		}
		h.isDamaged(damage.name, path, other)
		if damage.legible {
			h.refuseDamaged(e.remove(), "0192f6c2-7d3a-7000-9000-somebody-else", writ.CodeResourceConflict)
		}

		h.expect(e.remove(), writ.ChangeDeleted)
		if h.listed(Resource(e.kind(), subject)) {
			t.Errorf("%s: the resource is still listed", damage.name)
		}
		if diff := cmp.Diff(before, h.traces(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: traces after the deletion:\n%s", damage.name, diff)
		}
		h.noOrphans(damage.name)
	}
	h.expect(e.Make, writ.ChangeCreated)
}

// isDamaged checks that the driver reports the subject's damaged record, and no other problem.
func (h *host) isDamaged(how, path, other string) {
	h.Helper()
	for _, s := range append([]Step{h.suite.Make}, h.suite.Steps...) {
		h.refuseDamaged(s, uidOf(subject), writ.CodeRecordDamaged)
	}
	if _, err := h.driver.Observe(h.Context(),
		Resource(h.suite.kind(), subject)); writ.CodeOf(err) != writ.CodeRecordDamaged {
		h.Errorf("%s: Observe returned %v", how, err)
	}
	keeper, ok := h.driver.(sal.Keeper)
	if !ok {
		return
	}
	if _, err := keeper.Keep(h.Context(),
		Resource(h.suite.kind(), subject)); writ.CodeOf(err) != writ.CodeRecordDamaged {
		h.Errorf("%s: Keep returned %v", how, err)
	}
	if drift, err := keeper.Keep(h.Context(), Resource(h.suite.kind(), other)); err != nil || len(drift) > 0 {
		h.Errorf("%s: Keep of the other resource returned %v, %v", how, drift, err)
	}
	orphans, err := keeper.Orphans(h.Context())
	if diff := cmp.Diff([]sal.Orphan{{Kind: "damaged record", Name: path, Of: Resource(h.suite.kind(),
		subject).HostName()}}, orphans); err != nil || diff != "" {
		h.Errorf("%s: orphans %v:\n%s", how, err, diff)
	}
}

func (h *host) refuseDamaged(s Step, uid writ.UID, want writ.Code) {
	h.Helper()
	if _, err := h.do(h.Context(), s, subject, uid); writ.CodeOf(err) != want {
		h.Errorf("%s: got %v, want %s", s.Operation, err, want)
	}
}

func (h *host) noOrphans(when string) {
	h.Helper()
	keeper, ok := h.driver.(sal.Keeper)
	if !ok {
		return
	}
	if orphans, err := keeper.Orphans(h.Context()); err != nil || len(orphans) > 0 {
		h.Errorf("%s: orphans: %v, %v", when, orphans, err)
	}
}

// recordOf returns the record file of a resource, in the format of package sal, or "".
func (h *host) recordOf(resource writ.ResourceID) string {
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
