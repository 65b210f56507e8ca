package coordinatord

import (
	"testing"

	"writ/cmd/writ/internal/daemon/internal/test/daemontest"
)

func TestKeptFilesOfCoordinatorsAreMissed(t *testing.T) {
	daemontest.CheckKept(t,
		daemontest.KeptCase{File: ledgerKept, Has: map[string]string{"coordinator.key": "k", "ledger.db.lock": ""}},
		daemontest.KeptCase{File: ledgerKept, Has: map[string]string{"coordinator.key": "k", "ledger.db.lock": "made"}, Missed: true},
	)
}
