package check

import (
	"slices"

	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/token"

	"writ"
	"writ/sal/catalog"
	"writ/scripts/diagnostic"
	"writ/scripts/interpreter"
	"writ/scripts/syntax"
)

// splitter finds reads that split a group. Calls linked by handles get one node together if the script makes all of
// them before it waits. A read of a result is a wait: the calls before it get a node without the later ones. So a read
// is reported if a later call needs several resources on one node, and separate calls before the read made them: they
// may be on different nodes by then. splitter follows the statements of one function in order, and ignores unknown
// expressions.
type splitter struct {
	scope
	waits    []parser.Node // the reads so far
	holds    map[*syntax.Symbol]held
	mute     bool // the current code may not run
	reported map[parser.Node]bool
}

// held is the value of an expression, as far as it matters for placement.
type held struct {
	first    *made // the first call that made a part of it, nil if unknown
	second   *made // the first call that made another part of it
	many     bool  // the same call made more parts in a loop
	anchored bool  // a part of it has a node for another reason, for example the option node
	handle   bool  // it is a handle itself, not a list or map of handles
}

// made is a call that makes a resource without naming a node.
type made struct {
	call  *parser.CallExpr
	waits int  // number of waits before it
	read  bool // the script has waited for it
}

// with returns the union of h and `other`.
func (h held) with(other held) held {
	both := held{many: h.many || other.many, anchored: h.anchored || other.anchored}
	for _, m := range []*made{h.first, h.second, other.first, other.second} {
		switch {
		case m == nil || m == both.first || m == both.second:
		case both.first == nil:
			both.first = m
		case m.waits < both.first.waits:
			both.first, both.second = m, both.first
		case both.second == nil || m.waits < both.second.waits:
			both.second = m
		}
	}
	return both
}

// split reports whether separate calls made several parts of the value before the last wait. waits is the number of
// waits so far.
func (h held) split(waits int) bool {
	return h.many && h.first.waits < waits || h.second != nil && h.second.waits < waits
}

// splits reports reads that split a group, in the statements of one function.
func splits(in scope, list []parser.Stmt) {
	s := &splitter{scope: in, holds: make(map[*syntax.Symbol]held), reported: make(map[parser.Node]bool)}
	s.body(list)
}

func (s *splitter) body(list []parser.Stmt) {
	for _, n := range list {
		s.statement(n)
	}
}

func (s *splitter) statement(n parser.Stmt) {
	switch n := n.(type) {
	case *parser.AssignStmt:
		s.assignment(n)
	case *parser.IfStmt:
		if n.Init != nil {
			s.statement(n.Init)
		}
		s.value(n.Cond)
		s.maybe(n.Body)
		if n.Else != nil {
			s.maybe(n.Else)
		}
	case *parser.BlockStmt:
		s.body(n.Stmts)
	case *parser.ForStmt:
		if n.Init != nil {
			s.statement(n.Init)
		}
		if n.Cond != nil {
			s.value(n.Cond)
		}
		s.loop(n, n.Body)
	case *parser.ForInStmt:
		over := s.value(n.Iterable)
		over.handle = over.first != nil
		for _, name := range []*parser.Ident{n.Key, n.Value} {
			if symbol := s.Symbols[name]; symbol != nil {
				s.holds[symbol] = over
			}
		}
		s.loop(n, n.Body)
	case *parser.ExprStmt:
		s.value(n.Expr)
	case *parser.ReturnStmt:
		s.value(n.Result)
	case *parser.ExportStmt:
		s.value(n.Result)
	}
}

// maybe follows a statement that may not run. Its calls count, its waits do not.
func (s *splitter) maybe(n parser.Stmt) {
	before := s.mute
	s.mute = true
	s.statement(n)
	s.mute = before
}

// loop follows the body of a loop. Resources that it makes and stores in a variable from before the loop are marked as
// many.
func (s *splitter) loop(n parser.Node, body *parser.BlockStmt) {
	s.body(body.Stmts)
	for symbol, h := range s.holds {
		if h.first != nil && n.Pos() <= h.first.call.Pos() && h.first.call.Pos() < n.End() && symbol.Name != nil &&
			symbol.Name.Pos() < n.Pos() {
			h.many = h.many || !h.handle
			s.holds[symbol] = h
		}
	}
}

func (s *splitter) assignment(n *parser.AssignStmt) {
	h := s.value(n.RHS[0])
	target := n.LHS[0]
	name, whole := target.(*parser.Ident)
	for target != nil && name == nil {
		target, _ = partsOf(target)
		name, _ = target.(*parser.Ident)
	}
	symbol := s.Symbols[name]
	switch {
	case name == nil || symbol == nil:
	case whole && (n.Token == token.Define || n.Token == token.Assign && !s.mute):
		s.holds[symbol] = h
	default:
		s.holds[symbol] = s.holds[symbol].with(h)
	}
}

// value follows an expression in the order of its evaluation.
func (s *splitter) value(e parser.Expr) held {
	switch e := e.(type) {
	case nil, *parser.FuncLit:
		return held{}
	case *parser.Ident:
		return s.holds[s.Symbols[e]]
	case *parser.ParenExpr:
		return s.value(e.Expr)
	case *parser.SelectorExpr, *parser.IndexExpr:
		return s.part(e)
	case *parser.CallExpr:
		return s.called(e)
	}
	var all held
	syntax.Children(e, func(n parser.Node) {
		if inner, ok := n.(parser.Expr); ok {
			all = all.with(s.value(inner))
		}
	})
	return all
}

// part follows x.key: a field of a handle, which is a wait, or a member of a list or map.
func (s *splitter) part(e parser.Expr) held {
	base, key := partsOf(e)
	of := s.value(base)
	field, written := key.(*parser.StringLit)
	if !written {
		s.value(key)
	}
	op, _ := s.handle(base)
	switch {
	case op == nil && !of.handle: // a member
		of.handle = of.first != nil
		return of
	case !written || field.Value == interpreter.FieldName || s.mute ||
		of.first != nil && of.first.read && !of.many && of.second == nil:
		return held{} // no wait, or an earlier read has waited already
	}
	if of.first != nil {
		of.first.read = true
	}
	s.waits = append(s.waits, e)
	return held{}
}

// called follows a call of an operation, which may link its arguments, of append, or of another function.
func (s *splitter) called(e *parser.CallExpr) held {
	op := s.operation(e.Func)
	var given held
	for i, arg := range e.Args {
		if h := s.value(arg); op == nil || i != optionsAt(op) {
			given = given.with(h)
		}
	}
	if op == nil {
		s.value(e.Func)
		if name, ok := e.Func.(*parser.Ident); ok && name.Name == "append" {
			return given
		}
		return held{}
	}
	switch {
	case op.Kind == "" || op.Kind == writ.KindHeroDB || op.Origin != "":
		return held{}
	case op.Effect == catalog.Find || given.anchored || s.isAnchored(op, e):
		return held{anchored: true, handle: true}
	case given.first != nil:
		if given.split(len(s.waits)) {
			s.splitBy(s.waits[given.first.waits], op, e)
		}
		return held{first: given.first, handle: true} // it gets the node of its arguments
	case op.Effect != catalog.Make:
		return held{}
	}
	return held{first: &made{call: e, waits: len(s.waits)}, handle: true}
}

// optionsAt returns the index of the options among the arguments of a call.
func optionsAt(op *catalog.Operation) int {
	if op.Named() {
		return 2
	}
	return 1
}

// isAnchored reports whether the options of a call name or may name its node.
func (s *splitter) isAnchored(op *catalog.Operation, e *parser.CallExpr) bool {
	if len(e.Args) <= optionsAt(op) {
		return false
	}
	options, literal := e.Args[optionsAt(op)].(*parser.MapLit)
	return !literal ||
		slices.ContainsFunc(options.Elements,
			func(o *parser.MapElementLit) bool { return o.Key == "node" || o.Key == "labels" })
}

// splitBy reports a read that splits the arguments of a call.
func (s *splitter) splitBy(read parser.Node, op *catalog.Operation, e *parser.CallExpr) {
	if s.reported[read] {
		return
	}
	s.reported[read] = true
	s.warn(diagnostic.CodeSplitGroup, read,
		"this waits for a result: earlier calls get their nodes now, but %s in line %d needs several of "+
			"their resources on one node",
		op.Name(),
		s.Files.Position(e.Pos()).Line).Help = "make all linked calls first and read results after them, or give each call the option node"
}
