package runnerd

import (
	"writ/cmd/writ/internal/monitoring"
	"writ/coord/api"
	"writ/runner"
)

// readiness is a node whose readiness can be checked.
type readiness struct{ *runner.Runner }

func (r readiness) checks() []api.Check {
	serving, redis, fault := r.Ready()
	checks := []api.Check{monitoring.Check("serving", serving,
		"the node does not accept jobs yet: it waits for approval or is starting")}
	if !serving {
		return checks
	}
	return append(checks, monitoring.Check("redis", redis, "Redis does not answer"),
		monitoring.Check("node", fault == "", fault))
}
