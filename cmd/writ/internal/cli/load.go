package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"writ/coord/api"
)

// Cells of the load of a resource. They are empty if the load is unknown.
var (
	CPUsCell     = loadCell(func(l api.Load) string { return api.CPUs(l.MilliCPUs) })
	MemoryCell   = loadCell(func(l api.Load) string { return api.Memory(l.MemoryBytes) })
	RestartsCell = loadCell(func(l api.Load) string { return strconv.FormatInt(l.Restarts, 10) })
)

func loadCell(text func(api.Load) string) func(api.ListedResource) string {
	return func(r api.ListedResource) string {
		l := r.LoadAt(time.Now())
		if l == nil {
			return ""
		}
		return text(*l)
	}
}

// LoadText formats the load of a resource in lines, "" if it is unknown.
func LoadText(r api.ListedResource) string {
	var b strings.Builder
	if l := r.LoadAt(time.Now()); l != nil && l.Running {
		fmt.Fprintf(&b, "uses %s CPUs and %s of memory\n", api.CPUs(l.MilliCPUs), api.Memory(l.MemoryBytes))
	}
	if r.Load == nil {
		return ""
	}
	if cpus, memory, since, ok := r.Load.Peak(); ok {
		fmt.Fprintf(&b, "peak use: %s CPUs (five-minute mean) and %s of memory in the last %s\n",
			api.CPUs(cpus), api.Memory(memory), Age(since))
	}
	if n := r.Load.Restarts; n > 0 {
		fmt.Fprintf(&b, "its node restarted it %s because its program had ended\n", Count(int(n), "time"))
	}
	return b.String()
}
