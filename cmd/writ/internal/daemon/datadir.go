package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"writ"
	"writ/identity"
	"writ/internal/storelock"
)

// keptFile is a file of a data directory that a daemon creates only once. Without it the daemon would silently get a
// new identity or lose its records.
type keptFile struct {
	name     string
	role     string   // for the message: "coordinator"
	evidence []string // each of these files proves that the daemon has used the directory
	next     string   // the next step, with the directory as its argument
}

const (
	fromBackup  = "bring it back with `writ restore`, or copy it from a backup of %[1]s. "
	nodeIsNew   = "a node has no backup: remove it with `writ node remove NODE`, and start it with an empty directory in place of %[1]s and a new token"
	supervisors = fromBackup + "Without a backup make a new datacenter: `writ dc add`, and an empty --data"
)

// The kept files of each role, except the key of a coordinator: the roster decides whether it needs one.
var (
	ledgerKept = keptFile{coordLedger, "coordinator", []string{coordLedger + ".lock"},
		fromBackup + "To begin with an empty ledger, remove %[1]s/" + coordLedger +
			".lock: datacenters report their state again"}
	supervisorKeyKept = keptFile{
		supervisorKeyFile, "supervisor", []string{supervisorJournal, protectedFile, markFile, "rosters"}, supervisors,
	}
	journalKept = keptFile{
		supervisorJournal, "supervisor", []string{supervisorJournal + ".lock", protectedFile, markFile}, supervisors,
	}
	nodeKept = []keptFile{
		{"node.key", "node", []string{"member.json", "journal.db"}, nodeIsNew},
		{"age.key", "node", []string{"member.json", "journal.db"}, nodeIsNew},
		{"member.json", "node", []string{"journal.db"}, nodeIsNew},
		{"journal.db", "node", []string{"journal.db.lock"}, nodeIsNew},
	}
)

// check returns DATA_INCOMPLETE if the file is missing from a data directory that its daemon has used.
func (k keptFile) check(data string) error {
	if info, err := os.Stat(filepath.Join(data, k.name)); !errors.Is(err, fs.ErrNotExist) &&
		(err != nil || info.Size() > 0) {
		return nil
	}
	for _, name := range k.evidence {
		if exists(filepath.Join(data, name)) && !storelock.IsUnmarked(filepath.Join(data, name)) {
			return incomplete(data, k.name, "the "+k.role+" has worked with this directory before").
				WithHint(k.next, data)
		}
	}
	return nil
}

func incomplete(data, name, why string) *writ.Error {
	return writ.Errorf(writ.CodeDataIncomplete, "%s is missing or empty, although %s", filepath.Join(data, name), why)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// checkCoordinatorKey refuses to serve without the key of a coordinator that the roster names. Such a process would
// serve reads on loopback without a login.
func (c *Coord) checkCoordinatorKey(roster *identity.Roster, self *identity.Coordinator) error {
	if roster == nil || len(roster.Coordinators) == 0 || self != nil {
		return nil
	}
	if c.Keyless {
		c.Log.Warn("serving without a coordinator's key: reading needs no login. Use this only to repair the roster")
		return nil
	}
	const next = "bring %[1]s back with `writ restore`, or copy it from a backup. Without a backup give the coordinator a new key: docs/manual/runbook.md, The coordinator's key"
	path := filepath.Join(c.Data, coordinatorKeyFile)
	if exists(path) {
		return writ.Errorf(writ.CodeDataIncomplete,
			"no coordinator that version %d of the roster names has the key in %s", roster.Version, path).
			WithHint(next, path)
	}
	return incomplete(c.Data, coordinatorKeyFile,
		fmt.Sprintf("version %d of the roster names keys of coordinators", roster.Version)).
		WithHint(next, path)
}
