package runs

import (
	"net/url"

	"writ"
	"writ/coord/dashboard/page"
	"writ/coord/dashboard/snapshot"
	"writ/identity"
	"writ/internal/lazyregexp"
	"writ/ledger"
)

// shellFile matches file names that need no quoting in a shell.
var shellFile = lazyregexp.New(`^[A-Za-z0-9_.][A-Za-z0-9_./@+-]{0,127}$`)

// shellSpan matches time spans that commands accept.
var shellSpan = lazyregexp.New(`^[0-9]{1,5}[hms]$`)

// manyCommands returns the commands that cancel or resume all runs of a list, each with one signed statement. It
// returns no commands if the reader lacks the right, or if the list has several projects. It also returns none if the
// commands do not support a filter, or if a value is unsafe in a shell.
func manyCommands(q url.Values, filter ledger.RunFilter, now *snapshot.Snapshot, reader page.Reader) []page.Command {
	project := writ.ProjectID(q.Get("project"))
	word := now.ProjectWord(project)
	if word == "" || !reader.Allows(identity.ActionControlRuns, project) || filter.Failure != "" ||
		filter.Operation+filter.Text+q.Get(logsParam) != "" {
		return nil
	}
	flags := " --all --project " + word
	for _, f := range []struct {
		flag, value string
		proper      func(string) bool
	}{
		{"dc", now.DatacenterName(filter.Datacenter), writ.ValidName},
		{"script", filter.Script, shellFile.MatchString},
		{"deployment", filter.Deployment, writ.ValidName},
		{"signer", filter.Signer, identity.ValidPrincipal},
		{"since", q.Get(sinceParam), shellSpan.MatchString},
	} {
		switch {
		case f.value == "":
		case !f.proper(f.value):
			return nil
		default:
			flags += " --" + f.flag + " " + f.value
		}
	}
	var all []page.Command
	offer := func(does, line string) { all = append(all, page.Command{Does: does, Line: line}) }
	switch state := q.Get("state"); state {
	case string(writ.RunAccepted), string(writ.RunRunning):
		offer("List these runs and cancel them with one signed statement", "writ run cancel"+flags+" --state "+state)
	case "":
		offer("List the open runs and cancel them with one signed statement", "writ run cancel"+flags)
	}
	if state := q.Get("state"); state == "" || state == string(writ.RunFailed) {
		offer("List the failed runs and resume them with one signed statement", "writ run resume"+flags)
	}
	return all
}
