package catalog

import "time"

// afterWait is the time that a call needs after its longest wait, for example to kill a program.
const afterWait = 2 * time.Minute

// TimeLimit returns the time limit of a call without the option timeout: Timeout, or more if its arguments ask for a
// long wait. made holds the arguments that made its resource; it may be nil. They count where the call has no value of
// its own.
func (o *Operation) TimeLimit(args, made map[string]any) time.Duration {
	limit := o.Timeout
	for _, f := range o.Args {
		if !f.Waits {
			continue
		}
		seconds, _ := args[f.Name].(int64)
		if seconds == 0 && f.Default == nil {
			seconds, _ = made[f.Name].(int64)
		}
		limit = max(limit, time.Duration(seconds)*time.Second+afterWait)
	}
	return limit
}

// LongestWait returns the name and value of the argument that makes a call wait longest, or "" and 0.
func (o *Operation) LongestWait(args map[string]any) (name string, wait time.Duration) {
	for _, f := range o.Args {
		seconds, _ := args[f.Name].(int64)
		if d := time.Duration(seconds) * time.Second; f.Waits && d > wait {
			name, wait = f.Name, d
		}
	}
	return name, wait
}
