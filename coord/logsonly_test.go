package coord

import (
	"net/url"
	"slices"
	"testing"

	"writ"
	"writ/coord/api"
)

// Promise: Readers and roles: Runs that only read logs are recorded like all runs, and lists omit them unless asked.
// How: The coordinator marks them by the operations in the signed header.
// Also: TestOnlyLogReadersCountAsSuch, TestOverviewFilters, TestScripts/logs.
func TestListsOmitRunsThatOnlyReadLogs(t *testing.T) {
	t.Parallel()
	p := start(t, nil)
	submit := func(script string, allow ...string) writ.RunID {
		text := payload()
		text.Script.Name, text.Allow = script, allow
		sub, err := p.submit(signedScript(t, text))
		if err != nil {
			t.Fatal(err)
		}
		return sub.Run
	}
	reader := submit("logs.tengo", "container.logs")
	writer := submit("logs.tengo", "container.logs", "container.exec")
	for _, tt := range []struct {
		query  url.Values
		reader bool
	}{
		{nil, false}, {url.Values{"logs": {"false"}}, false}, {url.Values{"state": {"waiting"}}, false}, {url.Values{"text": {"logs"}}, false},
		{url.Values{"logs": {"true"}}, true}, {url.Values{"script": {"logs.tengo"}}, true}, {url.Values{"prefix": {string(reader[:8])}}, true},
	} {
		all := p.listed("", tt.query)
		_, reads := all[reader]
		if _, writes := all[writer]; reads != tt.reader || writes == tt.query.Has("prefix") {
			t.Errorf("%v: the reader is listed: %v, the other run: %v", tt.query, reads, writes)
		}
	}
	run, err := api.Answer[api.Run](p.client.GetRun(t.Context(), reader))
	if err != nil || !run.LogsOnly {
		t.Errorf("the run itself is %+v, %v", run, err)
	}
	if other, err := p.Ledger.Run(t.Context(), writer); err != nil || other.LogsOnly {
		t.Errorf("a run that also writes is %+v, %v", other, err)
	}
	if open, err := p.Ledger.WaitingProjects(t.Context(), vienna); err != nil || !slices.Equal(open, []writ.ProjectID{shop}) {
		t.Errorf("the submissions of the projects %v wait, %v", open, err)
	}
}
