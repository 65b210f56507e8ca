package simulated

import (
	"testing"

	"writ"
)

func TestRulesNeedTheirAddressFamily(t *testing.T) {
	d := open(t, Config{Module: "network", Dir: t.TempDir()})
	must(t, d, "network.create", "v6", nil)
	must(t, d, "network.create", "v4", map[string]any{"ipv4": "10.1.0.0/24"})
	rules := map[string]any{"rules": []any{map[string]any{"from": []any{"10.0.0.0/8"}}}}
	if _, err := do(t, t.Context(), d, "network.allow", "v6", rules); writ.CodeOf(err) != writ.CodeArgumentsInvalid {
		t.Errorf("a rule for IPv4 on a network without IPv4: %v", err)
	}
	must(t, d, "network.allow", "v4", rules)
}
