package runnerd

import (
	"testing"

	"writ/cmd/writ/internal/daemon/internal/test/daemontest"
)

func TestKeptFilesOfNodesAreMissed(t *testing.T) {
	daemontest.CheckKept(t,
		daemontest.KeptCase{File: nodeKept[0], Has: map[string]string{"member.json": "{}"}, Missed: true},
		daemontest.KeptCase{File: nodeKept[1], Has: map[string]string{"node.key": "k"}},
		daemontest.KeptCase{File: nodeKept[1], Has: map[string]string{"member.json": "{}"}, Missed: true},
		daemontest.KeptCase{File: nodeKept[2], Has: map[string]string{"node.key": "k", "age.key": "k"}},
		daemontest.KeptCase{File: nodeKept[2], Has: map[string]string{"journal.db": ""}, Missed: true},
		daemontest.KeptCase{File: nodeKept[3], Has: map[string]string{"member.json": "{}", "journal.db.lock": ""}},
		daemontest.KeptCase{File: nodeKept[3], Has: map[string]string{"member.json": "{}", "journal.db.lock": "made"}, Missed: true},
	)
}
