package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"writ"
)

// Promise: Failures: A daemon refuses to start without a file that it creates only once, such as its key.
// How: The code `DATA_INCOMPLETE`, the file and the next step.
// Also: TestDaemonsRefuseIncompleteDataDirectories, TestCoordinatorGetsANewKey.
func TestKeptFilesAreMissed(t *testing.T) {
	for _, tt := range []struct {
		file     keptFile
		there    map[string]string
		isMissed bool
	}{
		{supervisorKeyKept, nil, false},
		{supervisorKeyKept, map[string]string{"journal.db": ""}, true},
		{supervisorKeyKept, map[string]string{"rosters": ""}, true},
		{journalKept, map[string]string{"supervisor.key": "k"}, false},
		{journalKept, map[string]string{"journal.db.lock": ""}, false}, // a first start that was cut off
		{journalKept, map[string]string{"journal.db.lock": "made"}, true},
		{journalKept, map[string]string{"journal.mark": "{}"}, true},
		{ledgerKept, map[string]string{"coordinator.key": "k", "ledger.db.lock": ""}, false},
		{ledgerKept, map[string]string{"coordinator.key": "k", "ledger.db.lock": "made"}, true},
		{nodeKept[0], map[string]string{"member.json": "{}"}, true},
		{nodeKept[1], map[string]string{"node.key": "k"}, false},
		{nodeKept[1], map[string]string{"member.json": "{}"}, true},
		{nodeKept[2], map[string]string{"node.key": "k", "age.key": "k"}, false},
		{nodeKept[2], map[string]string{"journal.db": ""}, true},
		{nodeKept[3], map[string]string{"member.json": "{}", "journal.db.lock": ""}, false},
		{nodeKept[3], map[string]string{"member.json": "{}", "journal.db.lock": "made"}, true},
	} {
		dir := t.TempDir()
		for name, text := range tt.there {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := tt.file.check(dir)
		if got := writ.CodeOf(err) == writ.CodeDataIncomplete; got != tt.isMissed || err != nil != tt.isMissed {
			t.Errorf("%s beside %v: %v", tt.file.name, tt.there, err)
		}
		if e := writ.AsError(err); tt.isMissed && (!strings.Contains(e.Message, filepath.Join(dir, tt.file.name)) || !strings.Contains(e.Hint, dir)) {
			t.Errorf("%s: %s; %s", tt.file.name, e.Message, e.Hint)
		}
	}
}
