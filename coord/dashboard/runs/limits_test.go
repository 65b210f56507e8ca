package runs

import (
	"testing"
	"time"

	"writ"
	"writ/ledger"
)

func TestListNamesItsLimits(t *testing.T) {
	const searches, newest = "A page searches 5000 runs. ", "The numbers are of the newest 5000 "
	of := []writ.ProjectID{"shop"}
	for want, filters := range map[string][]ledger.RunFilter{
		"": {{}, {Projects: of}, {Signer: "alice", WithoutLogs: true}, {Datacenter: "dc"}},
		searches: {
			{Projects: of, Signer: "alice"}, {Datacenter: "dc", Signer: "alice"},
		},
		newest + "ended runs, and of all open ones.":            {{Script: "web.tengo"}, {Since: time.UnixMicro(1), Projects: of}},
		searches + newest + "ended runs, and of all open ones.": {{Deployment: "web", Projects: of}},
		searches + newest + "runs.":                             {{Text: "web"}, {Failure: writ.CodeNodeLost, Projects: of}},
	} {
		for _, filter := range filters {
			if got := limitsOf(filter); got != want {
				t.Errorf("%+v: %q, want %q", filter, got, want)
			}
		}
	}
}
