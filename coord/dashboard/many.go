package dashboard

import (
	"net/url"
	"regexp"

	"writ"
	"writ/identity"
	"writ/ledger"
)

// shellFile matches file names that need no quoting in a shell.
var shellFile = regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_./@+-]{0,127}$`)

// shellSpan matches time spans that commands accept.
var shellSpan = regexp.MustCompile(`^[0-9]{1,5}[hms]$`)

// manyCommands returns the commands that cancel or resume all runs of a list, each with one signed statement. There are
// none if the reader lacks the right, if the list has several projects, or if a filter is not supported by the command
// or is unsafe in a shell.
func manyCommands(q url.Values, filter ledger.RunFilter, now *moment, reader Reader) []command {
	project := writ.ProjectID(q.Get("project"))
	word := now.projectWord(project)
	if word == "" || !reader.may(identity.ActionControlRuns, project) || filter.Failure != "" ||
		filter.Operation+filter.Text != "" {
		return nil
	}
	flags := " --all --project " + word
	for _, f := range []struct {
		flag, value string
		proper      func(string) bool
	}{
		{"dc", now.datacenterName(filter.Datacenter), writ.ValidName},
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
	var all []command
	state := q.Get("state")
	open := state == string(writ.RunAccepted) || state == string(writ.RunRunning)
	if open {
		all = append(all,
			command{
				"List these runs and cancel them with one signed statement", "writ run cancel" + flags + " --state " + state,
			})
	}
	if state == "" {
		all = append(all, command{"List the open runs and cancel them with one signed statement", "writ run cancel" + flags})
	}
	if state == "" || state == string(writ.RunFailed) {
		all = append(all,
			command{"List the failed runs and resume them with one signed statement", "writ run resume" + flags})
	}
	return all
}
