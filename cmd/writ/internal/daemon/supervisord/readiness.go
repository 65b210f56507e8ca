package supervisord

import (
	"writ/cmd/writ/internal/monitoring"
	"writ/coord/api"
)

// checks returns the readiness checks of this process.
func (s *Supervisor) checks() []api.Check {
	serving := s.now.Load()
	checks := []api.Check{monitoring.Check("serving", serving != nil,
		"this supervisor does not serve its datacenter: it is on standby or is starting")}
	if serving == nil {
		return checks
	}
	journal, redis := serving.Works()
	return append(checks, monitoring.Check("journal", journal == "", journal),
		monitoring.Check("redis", redis, "Redis does not answer, or rejects writes"))
}
