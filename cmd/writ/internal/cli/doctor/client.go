package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"writ"
	"writ/cmd/writ/internal/cli"
	"writ/cmd/writ/internal/client"
	"writ/identity"
)

// examineClient checks the configuration, the coordinators, the roster and the signing key. If no cluster is
// configured, it skips these checks and returns one finding.
func examineClient(ctx context.Context, env *cli.Env) []finding {
	if f, skip := unconfigured(env); skip {
		return []finding{f}
	}
	c, f := examineConfig(env)
	found := []finding{f}
	var roster *identity.Roster
	if c != nil {
		found = append(found, examineServer(ctx, c)...)
		var f finding
		roster, f = examineRoster(ctx, c)
		found = append(append(found, f), examineRoles(roster, time.Now())...)
		found = append(found, examineDatacenters(ctx, c, roster)...)
		found = append(append(found, examineNodes(ctx, c)...), examineRuns(ctx, c)...)
		found = append(found, examineEnds(ctx, c, time.Now())...)
	}
	return append(found, examineKey(ctx, env, c, roster))
}

// unconfigured reports whether neither the configuration nor a flag or variable names a cluster, a coordinator or a
// key, as on a new machine.
func unconfigured(env *cli.Env) (finding, bool) {
	file, err := env.Configuration()
	if err != nil || !cli.NamesNothing(file, env.Flags.Context, env.Flags.Overrides()) {
		return finding{}, false
	}
	return finding{
		Check: "client", State: skipped,
		Detail: file.Path + " contains no cluster, so configuration, coordinators, roster and signing key were not checked",
		Fix:    "`writ dev` starts a cluster on this machine; `writ context import` adds an existing one",
	}, true
}

func examineConfig(env *cli.Env) (*client.Client, finding) {
	f := finding{Check: "configuration", State: ill}
	file, err := env.Configuration()
	if err != nil {
		f.Detail, f.Fix = err.Error(), writ.AsError(err).Hint
		return nil, f
	}
	c, err := env.Client()
	if err != nil {
		f.Detail, f.Fix = err.Error(), writ.AsError(err).Hint
		return nil, f
	}
	f.State = healthy
	f.Detail = fmt.Sprintf("%s, context %q, %s", file.Path, c.Context.Name, strings.Join(c.Context.Servers, " "))
	if c.Context.Cluster == "" {
		f.State, f.Detail = suspect, fmt.Sprintf("%s names no cluster to trust", file.Path)
		f.Fix = "set WRIT_CONFIG to the client.yaml that `writ init` or `writ dev` wrote, or use `writ context add`"
	}
	return c, f
}
