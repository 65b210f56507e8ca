package client

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"writ"
	"writ/cmd/writ/internal/config"
	"writ/coord/api"
	"writ/identity"
	"writ/identity/sshsig"
	"writ/internal/lazyregexp"
)

// LastRun names the newest run in commands.
const LastRun = "@last"

// MinPrefix is the minimum length of a run id prefix.
const MinPrefix = 4

// maxCandidates limits the runs listed for an ambiguous prefix.
const maxCandidates = 5

var prefixPattern = lazyregexp.New(fmt.Sprintf(`^[a-z2-7]{%d,25}$`, MinPrefix))

// Find returns the run that a user names: by id, by a prefix of the id, or as LastRun. A prefix must be unique among
// the runs that the user may read. LastRun is the last submission from this machine in the same project, otherwise the
// newest run of the project.
//
// sure reports that the result does not depend on a coordinator: the user typed the whole id, or this client derived it
// from its own submission. Otherwise the coordinator chose the run and may have chosen another run than the user means.
// Show the id to the user before signing a statement about such a run.
func (c Runs) Find(ctx context.Context, text string) (id writ.RunID, sure bool, err error) {
	switch {
	case writ.RunID(text).Valid():
		return writ.RunID(text), true, nil
	case text == LastRun:
		if id := c.client.Orders.remembered(); id != "" {
			return id, true, nil
		}
		id, err := newestRun(ctx, c.client)
		return id, false, err
	case prefixPattern.MatchString(text):
		id, err := runWith(ctx, c.client, text)
		return id, false, err
	}
	if plain := strings.ToLower(strings.TrimSpace(text)); plain != text &&
		(writ.RunID(plain).Valid() || prefixPattern.MatchString(plain)) {
		return "", false, writ.Errorf(writ.CodeUsage, "%q is not the id of a run", text).
			WithHint("did you mean %s? Ids have small letters and no spaces", plain)
	}
	return "", false, writ.Errorf(writ.CodeUsage, "%q is not the id of a run", text).
		WithHint("give its 26 letters and digits, or the first %d or more, or %s; `writ run list` lists the runs", MinPrefix,
			LastRun)
}

// runWith returns the only run whose id starts with prefix.
func runWith(ctx context.Context, c *Client, prefix string) (writ.RunID, error) {
	page, err := api.Answer[api.RunPage](c.API.ListRuns(ctx,
		&api.ListRunsParams{Prefix: &prefix, Limit: api.Given(maxCandidates + 1)}))
	if err != nil {
		return "", err
	}
	var candidates []string
	for _, r := range page.Items {
		if !r.ID.Valid() || !strings.HasPrefix(string(r.ID), prefix) {
			return "", writ.Errorf(writ.CodeUnverified,
				"the coordinator returned run %q for the prefix %s", r.ID, prefix).
				WithHint("use another coordinator with --server, and inform the operator of this one")
		}
		candidates = append(candidates, fmt.Sprintf("%s (%s, %s)", r.ID, r.Script, r.State))
	}
	switch {
	case len(candidates) == 0:
		return "", writ.Errorf(writ.CodeNotFound, "no run id begins with %s", prefix).
			WithHint("`writ run list` shows the runs that you may read")
	case len(candidates) > maxCandidates:
		candidates[maxCandidates] = "and more"
	case len(candidates) == 1:
		return page.Items[0].ID, nil
	}
	return "", writ.Errorf(writ.CodeConflict, "several runs begin with %s", prefix).
		WithHint("type more of the id: %s", strings.Join(candidates, ", "))
}

// newestRun returns the newest run of the context's project, or of all projects that the user may read.
func newestRun(ctx context.Context, c *Client) (writ.RunID, error) {
	runs, _, err := c.Runs.List(ctx, api.ListRunsParams{Project: api.Given(c.Context.Project)}, 1)
	switch {
	case err != nil:
		return "", err
	case len(runs) == 0:
		return "", writ.Errorf(writ.CodeNotFound, "cannot resolve %s: no run exists yet", LastRun).
			WithHint("`writ submit FILE` makes one")
	case !runs[0].ID.Valid():
		return "", writ.Errorf(writ.CodeUnverified, "the coordinator answers with an invalid run id %q", runs[0].ID).
			WithHint("use another coordinator with --server, and inform the operator of this one")
	}
	return runs[0].ID, nil
}

// lastRun is the stored record of the last submission.
type lastRun struct {
	Run         writ.RunID     `json:"run"`
	Project     writ.ProjectID `json:"project"`
	ProjectName string         `json:"project_name"`
}

// lastPath returns the file of the last submission to this cluster in this context.
func (c Orders) lastPath() string {
	of := strings.Join([]string{string(c.client.Context.Cluster), c.client.Context.Name}, "\x00")
	return filepath.Join(c.client.logins.dir, "last", writ.DigestOf([]byte(of)).String()+".json")
}

// Remember stores the run of a submission for LastRun. The id is derived from the text alone. A failed write is
// ignored; LastRun then depends on the coordinator.
func (c Orders) Remember(signed []byte) {
	text, _, err := sshsig.Split(signed)
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

// remembered returns the run of the last submission. It returns "" if there was none, or if it belongs to another
// project than the context's.
func (c Orders) remembered() writ.RunID {
	text, err := os.ReadFile(c.lastPath())
	var last lastRun
	if err != nil || json.Unmarshal(text, &last) != nil || !last.Run.Valid() {
		return ""
	}
	if p := c.client.Context.Project; p != "" && p != string(last.Project) && p != last.ProjectName {
		return ""
	}
	return last.Run
}

// AboutRuns starts a statement that cancels or resumes several runs of one datacenter and project.
func AboutRuns(runs []api.Run, resume bool) (identity.Statement, error) {
	l := identity.RunList{Project: runs[0].Project, ProjectName: runs[0].ProjectName, Resume: resume}
	for _, r := range runs {
		if r.Datacenter != runs[0].Datacenter || r.Project != l.Project {
			return identity.Statement{}, writ.Errorf(writ.CodeUsage,
				"the runs belong to several datacenters or projects, and a statement covers only one").
				WithHint("select one with --dc and --project")
		}
		l.Runs = append(l.Runs, identity.SawRun(r.ID, r.Script, resume, r.Ended))
	}
	s := identity.Statement{Datacenter: runs[0].Datacenter}
	l.Statement(&s)
	return s, nil
}

// Decide signs and submits a statement of AboutRuns. The result is signed by the supervisor. For each run it contains
// nil, or the reason why the run is unchanged. It contains no runs if the supervisor was interrupted.
func (c Runs) Decide(ctx context.Context, by *Person, s identity.Statement) (writ.Answer, error) {
	_, answer, err := c.client.Statements.decide(ctx, by, s)
	return answer, err
}

// List returns the runs that params select, newest first, and at most `limit` of them; 0 means all. next is the cursor
// of the remaining runs.
func (c Runs) List(
	ctx context.Context, params api.ListRunsParams, limit int,
) (runs []api.Run, next string, err error) {
	runs, err = All(func(cursor string) ([]api.Run, string, error) {
		params.Cursor, params.Limit = api.Given(cursor), api.Given(PageSize)
		if limit > 0 {
			params.Limit = api.Given(min(limit, PageSize))
		}
		page, err := api.Answer[api.RunPage](c.client.API.ListRuns(ctx, &params))
		next = page.NextCursor
		if limit > 0 {
			limit -= len(page.Items)
			if limit <= 0 {
				return page.Items, "", err
			}
		}
		return page.Items, page.NextCursor, err
	})
	return runs, next, err
}

// Selected rejects runs from a coordinator that do not match params. Projects and datacenters are compared by id.
func Selected(runs []api.Run, params api.ListRunsParams) error {
	differs := func(want *string, have string) bool { return want != nil && *want != have }
	for _, r := range runs {
		if differs(params.Project, string(r.Project)) || differs(params.Datacenter, string(r.Datacenter)) ||
			differs(params.Signer, r.Signer) ||
			len(params.State) > 0 && !slices.Contains(params.State, api.RunState(r.State)) || differs(params.Script, r.Script) ||
			differs(params.Deployment, r.Deployment) || params.Since != nil && r.Created.Before(*params.Since) {
			return writ.Errorf(writ.CodeUnverified,
				"the coordinator lists run %s (%s, %s), which was not requested", r.ID, r.Script, r.State).
				WithHint("use another coordinator with --server, and inform the operator of this one; nothing was signed")
		}
	}
	return nil
}

// ProveSelected rejects runs that params do not select, by their signed texts. A statement about runs names their
// scripts and their project, so a coordinator that shows another deployment, signer or time could add a run to it. If params
// select by time, ProveSelected also sets the time of each run to the time in its signed text.
func (c Runs) ProveSelected(ctx context.Context, runs []api.Run, params api.ListRunsParams) error {
	if err := Selected(runs, params); err != nil ||
		params.Deployment == nil && params.Signer == nil && params.Since == nil {
		return err
	}
	for i, r := range runs {
		signed, err := c.Signed(ctx, r)
		if err != nil {
			return err
		}
		text, _, err := sshsig.Split(signed)
		if err != nil {
			return err
		}
		p, err := identity.ParsePayload(text)
		if err != nil {
			return err
		}
		if p.Deployment.Name != r.Deployment || p.Signer != r.Signer {
			return writ.Errorf(writ.CodeUnverified,
				"the coordinator shows run %s as a run of the deployment %q by %s, but the signed text names %q and %s", r.ID,
				r.Deployment, r.Signer, p.Deployment.Name, p.Signer).
				WithHint("use another coordinator with --server, and inform the operator; nothing was signed")
		}
		if params.Since == nil {
			continue
		}
		if p.Expires.Add(2 * identity.Skew).Before(*params.Since) { // no supervisor accepts it after that
			return writ.Errorf(writ.CodeUnverified,
				"the coordinator shows run %s as a run of %s, and its signed text expired before, at %s", r.ID,
				r.Created.UTC().Format(time.RFC3339), p.Expires.UTC().Format(time.RFC3339)).
				WithHint("use another coordinator with --server, and inform the operator; no statement was signed")
		}
		runs[i].Created = p.Created
	}
	return nil
}
