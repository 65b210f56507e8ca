package cli

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"writ"
	"writ/cmd/writ/internal/client"
	"writ/coord/api"
	"writ/identity"
	"writ/internal/meant"
)

// AskEach calls `ask` concurrently for the datacenter with the given name or id, or for all datacenters of the roster
// if `name` is empty. The answers have the order of the roster.
func AskEach[T any](roster *identity.Roster, name string, ask func(d *identity.Datacenter) T) ([]T, error) {
	asked := roster.Datacenters
	if name != "" {
		only, err := client.Datacenter(roster, name)
		if err != nil {
			return nil, err
		}
		asked = []identity.Datacenter{*only}
	}
	answers := make([]T, len(asked))
	var asking sync.WaitGroup
	for i := range asked {
		asking.Go(func() { answers[i] = ask(&asked[i]) })
	}
	asking.Wait()
	return answers, nil
}

// NoNode returns the error for a name or id that no node has.
func NoNode(nameOrID string, nodes []writ.Node) error {
	return writ.Errorf(writ.CodeNotFound, "unknown node %q", nameOrID).
		WithHint("%s",
			meant.Among(nameOrID, nodes, func(n writ.Node) string { return n.Name }, "`writ node list` lists the nodes"))
}

// SeveralNodes returns the error for a name that several nodes have.
func SeveralNodes(nameOrID string, count int) error {
	return writ.Errorf(writ.CodeConflict, "%d nodes are called %q", count, nameOrID).
		WithHint("add --dc, or use the id; `writ node list -o wide` shows it")
}

// ResourceKinds lists the kinds of resources that scripts create.
var ResourceKinds = []string{"machine", "container", "volume", "image", "network", "herodb"}

// ParseResource parses the argument KIND/NAME.
func ParseResource(argument string) (kind writ.ResourceKind, name string, err error) {
	word, name, ok := strings.Cut(argument, "/")
	if !ok {
		return "", "", writ.Errorf(writ.CodeUsage, "%q is not a resource", argument).
			WithHint("write kind and name, for example machine/web-0")
	}
	if !slices.Contains(ResourceKinds, word) {
		return "", "", NotPossible("KIND/NAME", word, ResourceKinds)
	}
	return writ.ResourceKind(word), name, nil
}

// ResourcesNamed returns the resources with a name that params select. There can be several, in different projects or
// datacenters. If no resource matches, hint suggests another name.
func ResourcesNamed(
	ctx context.Context, c *client.Client, params api.ListResourcesParams, name string,
) (named []api.ListedResource, hint string, err error) {
	all, err := c.Listed(ctx, params)
	for _, r := range all {
		if r.Name == name {
			named = append(named, r)
		}
	}
	if len(named) == 0 {
		hint = meant.Among(name, all, func(r api.ListedResource) string { return r.Name },
			"`writ resource list` shows the resources")
	}
	return named, hint, err
}

// SinceTime parses a time in the past: a duration, a day in the local time zone, or a timestamp.
func SinceTime(text string, now time.Time) (time.Time, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n < 100_000 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if ago, err := time.ParseDuration(text); err == nil && ago > 0 {
		return now.Add(-ago), nil
	}
	if day, err := time.ParseInLocation(time.DateOnly, text, now.Location()); err == nil {
		return day, checkPast("--since", text, day, now)
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, checkPast("--since", text, at, now)
	}
	return time.Time{}, writ.Errorf(writ.CodeUsage, "--since must be 2h, 7d, 2026-03-01 or 2026-03-01T12:00:00Z; got %q",
		text)
}

// UsageMonth checks a month such as "2026-11", which must not be in the future. It returns "" for "all".
func UsageMonth(text string, now time.Time) (string, error) {
	if text == "all" {
		return "", nil
	}
	first, err := time.Parse("2006-01", text)
	if err != nil {
		return "", writ.Errorf(writ.CodeUsage, "--month must be a month such as 2026-11, or all; got %q", text)
	}
	return text, checkPast("--month", text, first, now.UTC())
}

// checkPast returns an error if the time of a flag is in the future. It tolerates the permitted difference of clocks.
func checkPast(flag, text string, at, now time.Time) error {
	if !at.After(now.Add(identity.Skew)) {
		return nil
	}
	return writ.Errorf(writ.CodeUsage, "%s %s is in the future: on this machine it is %s", flag, text,
		now.Format(time.RFC3339)).
		WithHint("use a time in the past, or set the clock of this machine if it is wrong")
}

// DatacenterNames maps the ids of datacenters to their names.
func DatacenterNames(ctx context.Context, c *client.Client) (map[writ.DatacenterID]string, error) {
	list, err := api.Answer[api.DatacenterList](c.API.ListDatacenters(ctx))
	if err != nil {
		return nil, err
	}
	names := make(map[writ.DatacenterID]string)
	for _, d := range list.Items {
		names[d.ID] = d.Name
	}
	return names, nil
}

// ProjectOf returns the project that the flags or the context select.
func ProjectOf(c *client.Client, roster *identity.Roster) (identity.Project, error) {
	return client.Project(roster, cmp.Or(c.Context.Project, client.DefaultProject))
}
