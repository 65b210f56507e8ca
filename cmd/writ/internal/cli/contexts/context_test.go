package contexts

import (
	"slices"
	"testing"

	"writ/identity"
)

func TestRemovedCoordinatorIsNotExported(t *testing.T) {
	t.Parallel()
	roster := func(urls ...string) *identity.Roster {
		r := &identity.Roster{}
		for _, u := range urls {
			r.Coordinators = append(r.Coordinators, identity.Coordinator{Name: "c", URLs: []string{u}})
		}
		return r
	}
	const (
		old    = "http://127.0.0.1:7440"
		moved  = "https://127.0.0.1:7445"
		second = "https://10.0.0.2:7440"
		proxy  = "https://writ.example.org"
	)
	for name, tt := range map[string]struct {
		servers []string
		roster  *identity.Roster
		want    []string
	}{
		"no roster":           {[]string{old}, nil, []string{old}},
		"coordinator of dev":  {[]string{old}, roster(old), []string{old}},
		"other port of dev":   {[]string{old}, roster("http://127.0.0.1:1"), []string{"http://127.0.0.1:1", old}},
		"removed coordinator": {[]string{old}, roster(moved), []string{moved}},
		"order of the user":   {[]string{second + "/", moved}, roster(moved, second), []string{second + "/", moved}},
		"proxy":               {[]string{proxy}, roster(second), []string{second, proxy}},
	} {
		if got := exportedServers(tt.servers, tt.roster); !slices.Equal(got, tt.want) {
			t.Errorf("%s: the context has %q, want %q", name, got, tt.want)
		}
	}
}
