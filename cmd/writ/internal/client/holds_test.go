package client

import (
	"path/filepath"
	"slices"
	"testing"

	"writ"
	"writ/cmd/writ/internal/config"
	"writ/identity"
)

// A client without a key requests all projects. The coordinator decides whether to show them without login.
func TestAClientWithoutAKeyAsksForAllProjects(t *testing.T) {
	w := newFixture(t)
	c, err := New(config.Context{Servers: []string{"http://127.0.0.1:1"}, Cluster: w.cluster}, t.TempDir(), Keys{Spec: filepath.Join(t.TempDir(), "none")})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Holds.Readable(t.Context(), w.alice.Roster); err != nil || !slices.Equal(got, []writ.ProjectID{identity.AllProjects}) {
		t.Errorf("%v, %v", got, err)
	}
}
