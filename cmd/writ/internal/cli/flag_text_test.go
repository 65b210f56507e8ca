package cli

import (
	"strings"
	"testing"

	"writ"
)

func TestLabelsOfDatacentersAreProper(t *testing.T) {
	for _, bad := range []map[string]string{{"Tier": "edge"}, {"tier": "two words"}, {"tier": strings.Repeat("a", 64)}} {
		if err := CheckLabels(bad, "--select"); writ.CodeOf(err) != writ.CodeUsage {
			t.Errorf("%v: %v", bad, err)
		}
	}
	if err := CheckLabels(map[string]string{"tier": "edge", "region": "eu"}, "--select"); err != nil {
		t.Error(err)
	}
}
