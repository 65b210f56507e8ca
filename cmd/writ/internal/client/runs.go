package client

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"writ"
	"writ/cmd/writ/internal/config"
	"writ/coord/api"
	"writ/identity"
)

// LastRun stands for the newest run in what a person types.
const LastRun = "@last"

// MinPrefix is how much of the id of a run a person types at least.
const MinPrefix = 4

// maxCandidates is how many runs are named to a person who typed too little of an id.
const maxCandidates = 5

var prefixPattern = regexp.MustCompile(fmt.Sprintf(`^[a-z2-7]{%d,25}$`, MinPrefix))

// FindRun returns the run that a person names: by its id, by the beginning of it, or as LastRun. Of a beginning there must be one run only among those
// that the person may read. LastRun is what was submitted last from here in the same project, otherwise the newest run of the project.
//
// sure says that no coordinator was believed: the person typed the whole id, or this client computed it from what it handed in. Otherwise a coordinator
// chose the run, perhaps another one than the person means. Nothing may be signed about such a run before the person has seen its id.
func (c *Client) FindRun(ctx context.Context, text string) (id writ.RunID, sure bool, err error) {
	switch {
	case writ.RunID(text).Valid():
		return writ.RunID(text), true, nil
	case text == LastRun:
		if id := c.remembered(); id != "" {
			return id, true, nil
		}
		id, err := c.newestRun(ctx)
		return id, false, err
	case prefixPattern.MatchString(text):
		id, err := c.runWith(ctx, text)
		return id, false, err
	}
	return "", false, writ.Errorf(writ.CodeUsage, "%q is not the id of a run", text).
		WithHint("give its 26 letters and digits, or the first %d or more, or %s; `writ run list` shows them", MinPrefix, LastRun)
}

// runWith returns the only run whose id begins with a prefix.
func (c *Client) runWith(ctx context.Context, prefix string) (writ.RunID, error) {
	page, err := api.Answer[api.RunPage](c.API.ListRuns(ctx, &api.ListRunsParams{Prefix: &prefix, Limit: api.Given(maxCandidates + 1)}))
	if err != nil {
		return "", err
	}
	var candidates []string
	for _, r := range page.Items {
		if !r.ID.Valid() || !strings.HasPrefix(string(r.ID), prefix) {
			return "", writ.Errorf(writ.CodeUnverified, "the coordinator was asked for runs that begin with %s, and answers with %q", prefix, r.ID).
				WithHint("ask another one with --server, and tell its operator")
		}
		candidates = append(candidates, fmt.Sprintf("%s (%s, %s)", r.ID, r.Script, r.State))
	}
	switch {
	case len(candidates) == 0:
		return "", writ.Errorf(writ.CodeNotFound, "there is no run that begins with %s", prefix).WithHint("`writ run list` shows the runs that you may read")
	case len(candidates) > maxCandidates:
		candidates[maxCandidates] = "and more"
	case len(candidates) == 1:
		return page.Items[0].ID, nil
	}
	return "", writ.Errorf(writ.CodeConflict, "several runs begin with %s", prefix).WithHint("type more of the id: %s", strings.Join(candidates, ", "))
}

// newestRun returns the newest run of the project of the context, or of all that the person may read.
func (c *Client) newestRun(ctx context.Context) (writ.RunID, error) {
	page, err := api.Answer[api.RunPage](c.API.ListRuns(ctx, &api.ListRunsParams{Project: api.Given(c.Context.Project), Limit: api.Given(1)}))
	switch {
	case err != nil:
		return "", err
	case len(page.Items) == 0:
		return "", writ.Errorf(writ.CodeNotFound, "there is no run yet, so none is %s", LastRun).WithHint("`writ submit FILE` makes one")
	case !page.Items[0].ID.Valid():
		return "", writ.Errorf(writ.CodeUnverified, "the coordinator answers with a run %q, which is no id", page.Items[0].ID).
			WithHint("ask another one with --server, and tell its operator")
	}
	return page.Items[0].ID, nil
}

// lastRun is what is remembered of the last submission.
type lastRun struct {
	Run         writ.RunID     `json:"run"`
	Project     writ.ProjectID `json:"project"`
	ProjectName string         `json:"project_name"`
}

// lastPath is the file with the last submission to this cluster in this context.
func (c *Client) lastPath() string {
	of := strings.Join([]string{string(c.Context.Cluster), c.Context.Name}, "\x00")
	return filepath.Join(c.logins.dir, "last", writ.DigestOf([]byte(of)).String()+".json")
}

// Remember keeps which run a submission makes, for LastRun. Its id follows from the text alone. If the file cannot be written, LastRun is
// what the coordinator says.
func (c *Client) Remember(signed []byte) {
	text, _, err := identity.Split(signed)
	if err != nil {
		return
	}
	payload, err := identity.ParsePayload(text)
	if err != nil {
		return
	}
	last, err := json.Marshal(lastRun{writ.RunIDOf(writ.DigestOf(text)), payload.Project, payload.ProjectName})
	if err == nil && os.MkdirAll(filepath.Dir(c.lastPath()), 0o700) == nil {
		_ = config.WriteFile(c.lastPath(), last)
	}
}

// remembered returns the run of the last submission, "" if there was none or it was in another project than that of the context.
func (c *Client) remembered() writ.RunID {
	text, err := os.ReadFile(c.lastPath())
	var last lastRun
	if err != nil || json.Unmarshal(text, &last) != nil || !last.Run.Valid() {
		return ""
	}
	if p := c.Context.Project; p != "" && p != string(last.Project) && p != last.ProjectName {
		return ""
	}
	return last.Run
}
