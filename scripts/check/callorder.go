package check

import (
	"maps"
	"slices"

	"github.com/d5/tengo/v2/parser"

	"writ/sal/catalog"
)

// callOrder holds the calls that a function has made so far, and records which of these calls have certainly ended.
type callOrder struct {
	calls   []orderedCall
	index   map[*parser.CallExpr]int // into calls
	awaited map[int]bool             // calls whose end the script has waited for
	parts   map[string]partsList     // by resource
}

// orderedCall is a call of an operation on a resource.
type orderedCall struct {
	at       *parser.CallExpr
	op       *catalog.Operation
	resource string
	content  string // the resource whose content the call reads or changes, or ""
	taken    string // the volume in the arguments of machine.detach or machine.attach, "" for other operations
	after    []int  // the calls on which it depends
	racing   []int  // the earlier calls that may still run
}

// partsList holds the resources that a machine or container uses. complete means that the script lists all of these
// resources.
type partsList struct {
	names    []string
	complete bool
}

func newCallOrder() *callOrder {
	return &callOrder{
		index: make(map[*parser.CallExpr]int), awaited: make(map[int]bool), parts: make(map[string]partsList),
	}
}

// add appends a call.
func (o *callOrder) add(c orderedCall) {
	o.index[c.at] = len(o.calls)
	o.calls = append(o.calls, c)
}

// keep drops all calls but the first n.
func (o *callOrder) keep(n int) {
	o.calls = o.calls[:n]
	maps.DeleteFunc(o.index, func(_ *parser.CallExpr, i int) bool { return i >= n })
	maps.DeleteFunc(o.awaited, func(i int, _ bool) bool { return i >= n })
}

// awaitAll records that all calls have ended.
func (o *callOrder) awaitAll() {
	for i := range o.calls {
		o.awaited[i] = true
	}
}

// collect adds calls to a set, and all calls on which they depend.
func (o *callOrder) collect(calls []int, into map[int]bool) {
	for _, i := range calls {
		if !into[i] {
			into[i] = true
			o.collect(o.calls[i].after, into)
		}
	}
}

// order sets the earlier calls on which a new call depends, and the earlier calls that may still run.
func (o *callOrder) order(c *orderedCall) {
	for i, earlier := range slices.Backward(o.calls) {
		if earlier.resource == c.resource { // that call depends on the calls before it
			c.after = append(c.after, i)
			break
		}
	}
	before := make(map[int]bool)
	o.collect(c.after, before)
	for i := range o.calls {
		if !o.awaited[i] && !before[i] {
			c.racing = append(c.racing, i)
		}
	}
}

// contentOf returns the resource whose content a call reads, replaces or deletes, or "" if the order of the call does
// not matter here. mentioned lists the resources in the call's arguments.
func contentOf(c *orderedCall, mentioned []string) string {
	switch c.op.Verb {
	case "restore", "snapshot", "delete_snapshot", "send", "backup", "delete":
		return c.resource
	case "clone", "copy":
		if len(mentioned) > 0 {
			return mentioned[0]
		}
	}
	return ""
}
