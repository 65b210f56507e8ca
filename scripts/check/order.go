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
// machine.stop, then volume.restore of its disk. A call waits for an earlier call about the same resource. It also
// waits if its arguments contain the handle of the earlier call, or if the script read a field of that handle.
//
// orderer follows the statements of one function. It assumes that an unknown expression waits for all earlier calls.
type orderer struct {
	scope
	*callOrder
	races  *races
	resets int // number of calls of reset
}

// unordered reports calls in the statements of one function.
func unordered(in scope, list []parser.Stmt) {
	o := &orderer{scope: in, races: &races{scope: in, reported: make(map[string]bool)}}
	o.reset()
	o.body(list)
}

// reset forgets all calls.
func (o *orderer) reset() {
	o.callOrder = newCallOrder()
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

// branch follows a block that may be skipped. Code after the block is checked as if the block made no calls, but read
// the results that it reads.
func (o *orderer) branch(n parser.Stmt) {
	calls, parts, resets := len(o.calls), maps.Clone(o.parts), o.resets
	o.statement(n)
	if o.resets != resets { // only calls of the branch are left
		o.reset()
		return
	}
	o.keep(calls)
	o.parts = parts
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
	_, call := o.handle(base)
	if i, ok := o.index[call]; ok {
		if text, written := key.(*parser.StringLit); !written || text.Value != interpreter.FieldName {
			o.collect([]int{i}, o.awaited)
		}
		return
	}
	o.awaitAll()
}

// called follows a call of an operation or a function.
func (o *orderer) called(e *parser.CallExpr) {
	for _, arg := range e.Args {
		o.expression(arg)
	}
	op := o.operation(e.Func)
	switch {
	case op != nil && op.Kind != "" && len(e.Args) > 0:
		o.made(e, op)
	case op == nil && o.pureCall(e) == "" && !o.isRun(e.Func, "log"):
		o.awaitAll() // a function may read fields
	}
}

// maxOrdered limits the number of calls that are compared with each other.
const maxOrdered = 200

// made records a call of an operation and compares it with the earlier calls.
func (o *orderer) made(e *parser.CallExpr, op *catalog.Operation) {
	if len(o.calls) == maxOrdered {
		o.reset()
	}
	c := orderedCall{at: e, op: op, resource: o.resource(op.Kind, e.Args[0])}
	mentioned, complete := o.mentioned(e.Args[1:], &c)
	o.order(&c)
	switch {
	case op.Kind == writ.KindVolume || op.Kind == writ.KindHeroDB || op.Kind == writ.KindNetwork:
		c.content = contentOf(&c, mentioned)
	case op.Makes:
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
	o.races.compare(o.callOrder, &c)
	o.add(c)
}

// resource identifies the resource of a call by its literal name, or else by the text of the expression.
func (o *orderer) resource(kind writ.ResourceKind, name parser.Expr) string {
	for range 20 { // the argument may be a handle, whose call may have a handle as its name, too
		if _, call := o.handle(name); call != nil && len(call.Args) > 0 {
			name = call.Args[0]
			continue
		}
		if text, written := o.origin(name).(*parser.StringLit); written {
			name = text
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
			if op, call := o.handle(e); op != nil && op.Kind != "" && len(call.Args) > 0 {
				names = append(names, o.resource(op.Kind, call.Args[0]))
				if i, known := o.index[call]; known {
					c.after = append(c.after, i)
				}
				return
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
