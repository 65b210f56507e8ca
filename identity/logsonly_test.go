package identity_test

import (
	"testing"

	"writ/identity"
	"writ/sal/catalog"
)

// Lists omit these runs, so a script with any other effect must not count as one.
func TestOnlyLogReadersCountAsSuch(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		allow      []string
		deployment identity.Deployment
		want       bool
	}{
		"Container":  {[]string{"container.logs"}, identity.Deployment{}, true},
		"Both":       {[]string{"container.logs", "machine.console"}, identity.Deployment{}, true},
		"None":       {nil, identity.Deployment{}, false},
		"Get":        {[]string{"container.get"}, identity.Deployment{}, false},
		"Exec":       {[]string{"container.exec", "container.logs"}, identity.Deployment{}, false},
		"Deployment": {[]string{"container.logs"}, identity.Deployment{Name: "web"}, false},
	} {
		p := &identity.Payload{Allow: tt.allow, Deployment: tt.deployment}
		if got := p.LogsOnly(); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
	for _, op := range catalog.Operations() {
		p := &identity.Payload{Allow: []string{op.Name()}}
		if got := p.LogsOnly(); got != (op.Aside && op.Effect == catalog.Look) {
			t.Errorf("a script with %s: %v", op.Name(), got)
		}
	}
}
