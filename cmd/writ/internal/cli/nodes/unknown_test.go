package nodes

import (
	"strings"
	"testing"

	"writ"
	"writ/cmd/writ/internal/cli"
)

func TestUnknownNodeGetsSuggestion(t *testing.T) {
	nodes := []writ.Node{{Name: "rack1-node1"}, {Name: "rack1-node2"}, {Name: "db1"}}
	if hint := writ.AsError(cli.NoNode("rak1-node2", nodes)).Hint; !strings.Contains(hint, `did you mean "rack1-node2"?`) {
		t.Errorf("%q", hint)
	}
	if hint := writ.AsError(cli.NoNode("zzz", nodes)).Hint; strings.Contains(hint, "did you mean") {
		t.Errorf("%q", hint)
	}
}
