package runtimespec

import (
	"writ"
	"writ/sal/catalog"
)

// limit is a limit of each process of a container.
type limit struct {
	argument string
	kind     string // as in the runtime spec
	resource int    // as in setrlimit(2)
	most     uint64
	unit     uint64 // of the argument
	setting  string // of the service of containerd
}

// limitsIn returns the limits that a call sets.
func limitsIn(limits catalog.Ulimits) (all []limit) {
	add := func(l limit, n int64) {
		if l.most = uint64(n) * l.unit; n > 0 {
			all = append(all, l)
		}
	}
	add(limit{"ulimits.nofile", "RLIMIT_NOFILE", rlimitNoFile, 0, 1, "LimitNOFILE"}, limits.NoFile)
	add(limit{"ulimits.memlock_mib", "RLIMIT_MEMLOCK", rlimitMemlock, 0, 1 << 20, "LimitMEMLOCK"}, limits.MemlockMiB)
	return all
}

// CheckLimits returns ARGUMENTS_INVALID for limits above the hard limits of containerd's process. A container with its
// own users cannot exceed these hard limits. If the process cannot be inspected, the kernel decides.
func CheckLimits(limits catalog.Ulimits, containerd int) error {
	for _, l := range limitsIn(limits) {
		if most, err := hardLimit(containerd, l.resource); err == nil && l.most > most {
			return writ.Errorf(writ.CodeArgumentsInvalid, "%s is %d, and containerd of the node allows %d", l.argument,
				l.most/l.unit, most/l.unit).
				WithHint("use at most %d, or let the operator raise %s of its service", most/l.unit, l.setting)
		}
	}
	return nil
}
