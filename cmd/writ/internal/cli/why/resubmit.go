package why

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"writ/cmd/writ/internal/cli"
	"writ/coord/api"
	"writ/identity"
	"writ/scripts"
)

// resubmit formats commands that submit or plan the script of a run again, in the same datacenter, with the same
// parameters and the same limit of calls. The commands never contain values of secrets.
type resubmit struct {
	run        api.Run
	datacenter string            // name, "" if it is unknown
	payload    *identity.Payload // nil if the coordinator does not have it
}

// unknown returns a clause about flags that the commands lack because the coordinator does not have the signed payload,
// otherwise "".
func (r resubmit) unknown() string {
	if r.payload != nil {
		return ""
	}
	return "; the coordinator does not have the signed text: add -p, --max-calls, --destructive and @REVISION of --deployment if you used them"
}

// submit returns the command that submits the script again. If the run was accepted, its deployment has a newer
// revision than the run's base, so the command names no base.
func (r resubmit) submit() string {
	deployment := r.run.Deployment
	if r.payload != nil && deployment != "" && r.run.Accepted.IsZero() {
		deployment += "@" + strconv.Itoa(r.payload.Deployment.Base)
	}
	words := r.words("submit", deployment)
	if r.payload != nil {
		targets := slices.DeleteFunc(slices.Clone(r.payload.Targets), func(t string) bool {
			return slices.Contains(r.payload.Prune, t)
		})
		if len(targets) > 0 {
			words = append(words, "--destructive="+strings.Join(targets, ","))
		}
	}
	return shellLine(words)
}

// plan returns the command that previews the script.
func (r resubmit) plan() string { return shellLine(r.words("plan", r.run.Deployment)) }

// words returns the words of a command about the script.
func (r resubmit) words(command, deployment string) []string {
	words := []string{"writ", command, r.run.Script, "--project", r.run.ProjectName}
	if r.datacenter != "" {
		words = append(words, "--dc", r.datacenter)
	}
	if deployment != "" {
		words = append(words, "--deployment", deployment)
	}
	if r.payload != nil {
		if n := r.payload.MaxCalls; n != 0 && n != scripts.UsualCalls {
			words = append(words, "--max-calls", strconv.Itoa(n))
		}
		for _, name := range r.payload.Uses {
			words = append(words, "--uses", name)
		}
		if len(r.payload.Prune) > 0 {
			words = append(words, "--prune="+strings.Join(r.payload.Prune, ","))
		}
		for _, name := range slices.Sorted(maps.Keys(r.payload.Params)) {
			words = append(words, "-p", name+"="+paramText(r.payload.Params[name]))
		}
	}
	return words
}

// shellLine quotes the words of a command for a shell.
func shellLine(words []string) string {
	for i, w := range words {
		words[i] = cli.ShellWord(w)
	}
	return strings.Join(words, " ")
}

// paramText formats a parameter in the form that the command line accepts.
func paramText(v any) string {
	if list, ok := v.([]any); ok {
		text, err := json.Marshal(list)
		if err == nil {
			return string(text)
		}
	}
	return fmt.Sprint(v)
}

// SubmitAgain returns the command that submits the script of a run again, in the datacenter with this name. payload is
// the signed text, nil if the coordinator does not have it: the command then lacks parameters.
func SubmitAgain(run api.Run, datacenter string, payload *identity.Payload) string {
	return resubmit{run, datacenter, payload}.submit()
}
