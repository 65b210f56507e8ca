package syntax

import (
	"maps"
	"slices"

	"github.com/d5/tengo/v2"
	"github.com/d5/tengo/v2/parser"
)

// Symbol is a variable of a script.
type Symbol struct {
	Name     *parser.Ident // its definition, nil for builtins
	Fn       *function     // the function that defines it, nil at the top level
	Init     parser.Expr   // its initial value, nil for parameters and loop variables
	Hides    *Symbol       // the outer symbol with the same name, or nil
	Assigned bool          // it is assigned again later
	Builtin  bool
}

// function holds the counts of one function.
type function struct {
	outer    *function
	literal  *parser.FuncLit // nil for the body of a module
	locals   int             // the maximum number of variables alive at the same time
	captured map[*Symbol]bool
	loops    int // number of loops around the current statement
}

// scope is a block. Tengo allocates a variable per name and block. A block inside a function frees its variables; a
// block at the top level does not.
type scope struct {
	outer  *scope
	fn     *function
	names  map[string]*Symbol
	locals int // number of variables alive in this block and its outer blocks in the function
}

// builtins are the functions that every unit can use.
var builtins = func() map[string]*Symbol {
	m := make(map[string]*Symbol)
	for _, fn := range tengo.GetAllBuiltinFunctions() {
		m[fn.Name] = &Symbol{Builtin: true}
	}
	return m
}()

// find returns the variable of a name in this block or an outer block, or nil.
func (s *scope) find(name string) *Symbol {
	for ; s != nil; s = s.outer {
		if found := s.names[name]; found != nil {
			return found
		}
	}
	return nil
}

// visible returns the names of all variables that find returns, sorted.
func (s *scope) visible() []string {
	all := make(map[string]bool)
	for ; s != nil; s = s.outer {
		for name := range s.names {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}
