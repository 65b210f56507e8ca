package check

import (
	"maps"
	"slices"

	"github.com/d5/tengo/v2/parser"

	"writ"
	"writ/sal/catalog"
	"writ/scripts/interpreter"
	"writ/scripts/syntax"
)

// orderer finds pairs of calls about related resources that run at the same time although their order matters. Example:
// machine.stop, then volume.restore of its disk. Calls are ordered by handles, by reads of fields, and by having the
// same resource.
//
// orderer follows the statements of one function. It assumes that an unknown expression waits for all earlier calls.
type orderer struct {
	*linter
	calls    []orderedCall
	index    map[*parser.CallExpr]int
	awaited  map[int]bool // calls whose end the script has waited for
	parts    map[string]partsList
	reported map[string]bool // pairs of resources
	resets   int             // calls of reset
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

// partsList holds the resources that a machine or container uses. It is complete if the script lists all of them.
type partsList struct {
	names    []string
	complete bool
}

// unordered reports calls in the statements of one function.
func (l *linter) unordered(list []parser.Stmt) {
	o := &orderer{linter: l, reported: make(map[string]bool)}
	o.reset()
	o.body(list)
}

func (o *orderer) reset() {
	o.calls, o.index = nil, make(map[*parser.CallExpr]int)
	o.awaited, o.parts = make(map[int]bool), make(map[string]partsList)
	o.resets++
}

func (o *orderer) body(list []parser.Stmt) {
	for _, s := range list {
		o.statement(s)
	}
}

func (o *orderer) statement(n parser.Node) {
	switch n := n.(type) {
	case *parser.AssignStmt:
		o.expression(n.RHS[0])
		if name, ok := n.LHS[0].(*parser.Ident); !ok || o.Symbols[name] == nil || o.Symbols[name].Assigned {
			o.reset() // names may mean other resources now
		}
	case *parser.IncDecStmt:
		o.reset()
	case *parser.BlockStmt:
		o.body(n.Stmts)
	case *parser.IfStmt:
		if n.Init != nil {
			o.statement(n.Init)
		}
		o.expression(n.Cond)
		o.branch(n.Body)
		if n.Else != nil {
			o.branch(n.Else)
		}
	case *parser.ForStmt:
		o.reset()
		o.statement(n.Body)
		o.reset()
	case *parser.ForInStmt:
		o.reset()
		o.statement(n.Body)
		o.reset()
	default:
		syntax.Children(n, o.node)
	}
}

func (o *orderer) node(n parser.Node) {
	if e, ok := n.(parser.Expr); ok {
		o.expression(e)
		return
	}
	o.statement(n)
}

// branch follows a block that may be skipped. After it, its calls count as not made, and its reads count as done.
func (o *orderer) branch(n parser.Stmt) {
	calls, parts, resets := len(o.calls), maps.Clone(o.parts), o.resets
	o.statement(n)
	if o.resets != resets { // the calls are those of the branch alone
		o.reset()
		return
	}
	o.calls, o.parts = o.calls[:calls], parts
	maps.DeleteFunc(o.index, func(_ *parser.CallExpr, i int) bool { return i >= calls })
	maps.DeleteFunc(o.awaited, func(i int, _ bool) bool { return i >= calls })
}

// expression follows an expression in the order of its evaluation.
func (o *orderer) expression(e parser.Expr) {
	switch e := e.(type) {
	case nil, *parser.FuncLit:
	case *parser.SelectorExpr, *parser.IndexExpr:
		o.read(e)
	case *parser.CallExpr:
		o.called(e)
	default:
		syntax.Children(e, o.node)
	}
}

// read follows x.key, which waits if x is a handle.
func (o *orderer) read(e parser.Expr) {
	base, key := partsOf(e)
	if o.module(base) != "" || o.isParams(e) || o.isParams(base) {
		return
	}
	o.expression(base)
	if _, written := key.(*parser.StringLit); !written {
		o.expression(key)
	}
	if i, ok := o.index[callOf(o.linter, base)]; ok {
		if text, written := key.(*parser.StringLit); !written || text.Value != interpreter.FieldName {
			o.collect([]int{i}, o.awaited)
		}
		return
	}
	o.waitForAll()
}

func (o *orderer) waitForAll() {
	for i := range o.calls {
		o.awaited[i] = true
	}
}

// called follows a call of an operation or a function.
func (o *orderer) called(e *parser.CallExpr) {
	for _, arg := range e.Args {
		o.expression(arg)
	}
	op := o.operation(e.Func)
	switch {
	case op != nil && op.Kind != "" && len(e.Args) > 0:
		o.add(e, op)
	case op == nil && o.pureCall(e) == "" && !o.logs(e):
		o.waitForAll() // a function may read fields
	}
}

// logs reports whether a call is run.log, which does not wait.
func (o *orderer) logs(e *parser.CallExpr) bool {
	base, key := selected(e.Func)
	return key != nil && key.Value == "log" && o.module(base) == "run"
}

// maxOrdered limits the number of calls that are compared with each other.
const maxOrdered = 200

// add records a call and compares it with the earlier ones.
func (o *orderer) add(e *parser.CallExpr, op *catalog.Operation) {
	if len(o.calls) == maxOrdered {
		o.reset()
	}
	c := orderedCall{at: e, op: op, resource: o.resource(op.Kind, e.Args[0])}
	mentioned, complete := o.mentioned(e.Args[1:], &c)
	for i, earlier := range slices.Backward(o.calls) {
		if earlier.resource == c.resource { // it depends on the calls before it
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
	switch {
	case op.Kind == writ.KindVolume || op.Kind == writ.KindHeroDB || op.Kind == writ.KindNetwork:
		c.content = o.contentOf(&c, mentioned)
	case op.Effect == catalog.Make:
		o.parts[c.resource] = partsList{mentioned, complete}
	case op.Verb == "attach" || op.Verb == "detach":
		if len(mentioned) > 0 {
			c.taken = mentioned[0]
		}
		if op.Verb == "attach" {
			list := o.parts[c.resource]
			o.parts[c.resource] = partsList{append(slices.Clone(list.names), mentioned...), list.complete}
		}
	}
	o.compare(&c)
	o.index[e] = len(o.calls)
	o.calls = append(o.calls, c)
}

// collect adds calls to a set, and all calls on which they depend.
func (o *orderer) collect(calls []int, into map[int]bool) {
	for _, i := range calls {
		if !into[i] {
			into[i] = true
			o.collect(o.calls[i].after, into)
		}
	}
}

// contentOf returns the resource whose content a call reads, replaces or deletes, or "" if the order of the call does
// not matter here.
func (o *orderer) contentOf(c *orderedCall, mentioned []string) string {
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

// resource identifies the resource of a call by its literal name, or else by the text of the expression.
func (o *orderer) resource(kind writ.ResourceKind, name parser.Expr) string {
	for range 20 { // handles to handles
		if call := callOf(o.linter, name); call != nil && len(call.Args) > 0 {
			name = call.Args[0]
			continue
		}
		if ident, ok := name.(*parser.Ident); ok {
			if s := o.Symbols[ident]; s != nil && !s.Assigned {
				if text, written := s.Init.(*parser.StringLit); written {
					name = text
				}
			}
		}
		break
	}
	return string(kind) + " " + name.String()
}

// mentioned returns the resources of the handles in args, and adds the calls that returned these handles to c.after.
// The list is incomplete if an argument is built elsewhere.
func (o *orderer) mentioned(args []parser.Expr, c *orderedCall) (names []string, complete bool) {
	complete = true
	var visit func(parser.Node)
	visit = func(n parser.Node) {
		switch n := n.(type) {
		case *parser.Ident, *parser.CallExpr:
			e, _ := n.(parser.Expr)
			if op := o.handle(e); op != nil && op.Kind != "" {
				if call := callOf(o.linter, e); call != nil && len(call.Args) > 0 {
					names = append(names, o.resource(op.Kind, call.Args[0]))
					if i, known := o.index[call]; known {
						c.after = append(c.after, i)
					}
					return
				}
			}
			complete = false
		case *parser.SelectorExpr, *parser.IndexExpr: // a field of a result, or a parameter
		default:
			syntax.Children(n, visit)
		}
	}
	for _, arg := range args {
		visit(arg)
	}
	return names, complete
}

// callOf returns the call whose handle an expression is, or nil if it is unknown.
func callOf(l *linter, e parser.Expr) *parser.CallExpr {
	if l.handle(e) == nil {
		return nil
	}
	if name, ok := e.(*parser.Ident); ok {
		e = l.Symbols[name].Init
	}
	call, _ := e.(*parser.CallExpr)
	return call
}
