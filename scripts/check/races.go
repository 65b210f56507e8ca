package check

import (
	"slices"

	"writ"
	"writ/sal/catalog"
	"writ/scripts/diagnostic"
)

// races reports calls that may run at the same time as an earlier call although the script implies an order.
type races struct {
	scope
	reported map[string]bool // pairs of resources
}

// compare reports the earlier calls in o that may run at the same time as c.
func (r *races) compare(o *callOrder, c *orderedCall) {
	if c.content != "" {
		for _, i := range c.racing {
			if releases(o, &o.calls[i], c) {
				r.reportOnce(&o.calls[i], c)
				return
			}
		}
		return
	}
	for _, i := range c.racing { // example: a migration must end before its service starts
		if o.calls[i].op.Effect == catalog.Run && startsContainer(c.op) {
			r.reportOnce(&o.calls[i], c)
		}
	}
	if c.op.Verb != "start" && c.op.Verb != "attach" {
		return
	}
	stopped := slices.IndexFunc(o.calls,
		func(earlier orderedCall) bool { return earlier.resource == c.resource && earlier.op.Verb == "stop" })
	list, known := o.parts[c.resource]
	known = known && list.complete
	for i, work := range slices.Backward(o.calls) {
		if work.content == "" || work.op.Verb == "delete" {
			continue
		}
		uses := slices.Contains(list.names, work.content) && (stopped >= 0 && stopped < i || work.op.Verb == "restore")
		// If the spec is unknown, work between stop and start of one resource is assumed to be work on its parts.
		between := !known && stopped >= 0 && stopped < i && work.op.Kind != writ.KindNetwork
		if !uses && !between {
			continue
		}
		if between && !uses && slices.Contains(work.racing, stopped) {
			r.reportOnce(&o.calls[stopped], &work)
		}
		if slices.Contains(c.racing, i) {
			r.reportOnce(&o.calls[i], c)
		}
	}
}

// startsContainer reports whether an operation starts a container that keeps running.
func startsContainer(op *catalog.Operation) bool {
	return op.Kind == writ.KindContainer && (op.Effect == catalog.Make || op.Verb == "start")
}

// releases reports whether `work` must wait for an earlier call, because that call ends the use of its resource.
func releases(o *callOrder, earlier, work *orderedCall) bool {
	uses := slices.Contains(o.parts[earlier.resource].names, work.content)
	switch earlier.op.Verb {
	case "stop":
		return uses && work.op.Verb != "delete"
	case "run":
		return uses
	case "delete":
		return uses && earlier.content == ""
	case "detach":
		return earlier.taken == work.content
	case "clone", "copy": // possibly of a snapshot
		return work.op.Verb == "delete_snapshot" && earlier.content == work.content
	}
	return false
}

// reportOnce warns that a call does not wait for an earlier call. One read fixes all pairs of the same two resources,
// so only one pair is reported.
func (r *races) reportOnce(earlier, later *orderedCall) {
	pair := earlier.resource + " " + later.resource
	if r.reported[pair] {
		return
	}
	r.reported[pair] = true
	field := "uid"
	for _, better := range []string{"state", "exit_code"} {
		if _, ok := earlier.op.Result.Field(better); ok {
			field = better
		}
	}
	r.warn(diagnostic.CodeUnordered, later.at,
		"%s does not wait for %s in line %d: calls about different resources run at the same time",
		later.op.Name(), earlier.op.Name(), r.Files.Position(earlier.at.Pos()).Line).
		Help = "read a result before it, as in " + earlier.op.Name() + "(…)." + field
}
