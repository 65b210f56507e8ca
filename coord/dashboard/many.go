package dashboard

import (
	"net/url"
	"regexp"
	"slices"

	"writ"
	"writ/identity"
	"writ/ledger"
)

// shellFile is a file name that a shell takes as it is.
var shellFile = regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_./@+-]{0,127}$`)

// shellSpan is how far back a list goes, as commands take it.
var shellSpan = regexp.MustCompile(`^[0-9]{1,5}[hms]$`)

// manyCommands are the commands that cancel or resume the runs which a list selects, each by one signed statement. There are none for a reader who may
// not, for a list of several projects, and for filters that the command does not have or a shell would carry out.
func manyCommands(q url.Values, filter ledger.RunFilter, now *moment, reader Reader) []command {
	project := writ.ProjectID(q.Get("project"))
	word := projectWord(now, project)
	if word == "" || !reader.may(identity.ActionControlRuns, project) || filter.Failure != "" || filter.Operation+filter.Text != "" {
		return nil
	}
	flags := " --all --project " + word
	for _, f := range []struct {
		flag, value string
		proper      func(string) bool
	}{
		{"dc", dcName(now, filter.Datacenter), writ.ValidName},
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
		all = append(all, command{"Cancel all of these by one signed statement, after it has shown them", "writ run cancel" + flags + " --state " + state})
	}
	if state == "" {
		all = append(all, command{"Cancel those that are open by one signed statement, after it has shown them", "writ run cancel" + flags})
	}
	if state == "" || state == string(writ.RunFailed) {
		all = append(all, command{"Resume those that have failed by one signed statement, after it has shown them", "writ run resume" + flags})
	}
	return all
}

// projectWord is how a command names a project: by its id if another tenant has one of the same name, "" if there is no such project.
func projectWord(now *moment, project writ.ProjectID) string {
	i := slices.IndexFunc(now.projects, func(p identity.Project) bool { return p.ID == project })
	if i < 0 || !writ.ValidName(now.projects[i].Name) {
		return ""
	}
	if slices.ContainsFunc(now.projects, func(p identity.Project) bool { return p.ID != project && p.Name == now.projects[i].Name }) {
		return string(project)
	}
	return now.projects[i].Name
}

// dcName is the name of a datacenter, "" of none.
func dcName(now *moment, id writ.DatacenterID) string {
	if id == "" {
		return ""
	}
	return now.datacenter(id).Name
}
