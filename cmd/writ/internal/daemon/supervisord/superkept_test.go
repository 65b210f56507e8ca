package supervisord

import (
	"testing"

	"writ/cmd/writ/internal/daemon/internal/test/daemontest"
)

// Promise: Failures: A daemon refuses to start without a file that it creates only once, such as its key.
// How: The code `DATA_INCOMPLETE`, the file and the next step.
// Also: TestDaemonsRefuseIncompleteDataDirectories, TestCoordinatorGetsANewKey, TestKeptFilesOfNodesAreMissed,
// TestKeptFilesOfCoordinatorsAreMissed.
func TestKeptFilesAreMissed(t *testing.T) {
	daemontest.CheckKept(t,
		daemontest.KeptCase{File: supervisorKeyKept, Has: nil},
		daemontest.KeptCase{File: supervisorKeyKept, Has: map[string]string{"journal.db": ""}, Missed: true},
		daemontest.KeptCase{File: supervisorKeyKept, Has: map[string]string{"rosters": ""}, Missed: true},
		daemontest.KeptCase{File: journalKept, Has: map[string]string{"supervisor.key": "k"}},
		daemontest.KeptCase{File: journalKept, Has: map[string]string{"journal.db.lock": ""}}, // a first start that was cut off
		daemontest.KeptCase{File: journalKept, Has: map[string]string{"journal.db.lock": "made"}, Missed: true},
		daemontest.KeptCase{File: journalKept, Has: map[string]string{"journal.mark": "{}"}, Missed: true},
	)
}
