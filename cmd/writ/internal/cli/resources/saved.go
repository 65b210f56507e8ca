package resources

import (
	"context"
	"strings"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/cmd/writ/internal/terminal"
	"writ/coord/api"
)

// shownResource is the JSON and YAML form of a resource.
type shownResource struct {
	api.ListedResource
	savedStates
}

// savedStates holds the names of the backups and snapshots of a resource.
type savedStates struct {
	Backups   []string `json:"backups,omitempty"`
	Snapshots []string `json:"snapshots,omitempty"`
}

// savedOf returns the backups of a database, or the snapshots of a volume or machine. They are in the result of the last
// call about the resource, in the run that changed it last. If the datacenter does not return this result, savedOf
// returns none.
func savedOf(ctx context.Context, c *client.Client, r api.ListedResource) (s savedStates) {
	switch r.Kind {
	case writ.KindHeroDB, writ.KindVolume, writ.KindMachine:
	default:
		return s
	}
	calls, err := c.Runs.Calls(ctx, r.Run)
	if err != nil {
		return s
	}
	last := 0
	for _, call := range calls {
		if call.Kind == r.Kind && call.Name == r.Name && call.State == writ.CallSucceeded {
			last = call.Seq
		}
	}
	if last == 0 {
		return s
	}
	values, err := c.Runs.Values(ctx, r.Run, last-1)
	if err != nil || len(values.Calls) == 0 || values.Calls[0].Seq != last {
		return s
	}
	if r.Kind == writ.KindHeroDB {
		s.Backups = textsOf(values.Calls[0].Values["backups"])
	}
	s.Snapshots = textsOf(values.Calls[0].Values["snapshots"])
	return s
}

// textsOf returns the texts of a list.
func textsOf(v any) (texts []string) {
	list, _ := v.([]any)
	for _, one := range list {
		if text, ok := one.(string); ok {
			texts = append(texts, text)
		}
	}
	return texts
}

// text formats the names for people. The result ends with a line break, unless it is empty.
func (s savedStates) text() (text string) {
	if len(s.Backups) > 0 {
		text += "  backups: " + terminal.Clean(strings.Join(s.Backups, ", ")) + "\n"
	}
	if len(s.Snapshots) > 0 {
		text += "  snapshots: " + terminal.Clean(strings.Join(s.Snapshots, ", ")) + "\n"
	}
	return text
}
