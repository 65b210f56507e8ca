package check

import (
	"slices"

	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/token"

	"writ/internal/meant"
	"writ/sal/catalog"
	"writ/scripts"
	"writ/scripts/diagnostic"
	"writ/scripts/syntax"
)

// paramsName is the variable that declares parameters.
const paramsName = "params"

// paramSchema describes the declaration of one parameter.
var paramSchema = catalog.Schema{
	{
		Name: "type", Type: catalog.String, Required: true, Enum: []string{"string", "bool", "int", "list"},
		Help: "the type of the value",
	},
	{Name: "of", Type: catalog.String, Enum: []string{"string", "bool", "int"}, Help: "the type of a list's elements"},
	{Name: "min", Type: catalog.Int, Help: "least value of an int, bytes of a string, elements of a list"},
	{Name: "max", Type: catalog.Int, Help: "greatest value of an int, bytes of a string, elements of a list"},
	{
		Name: "pattern", Type: catalog.String, Max: new(int64(scripts.MaxPattern)),
		Help: "the pattern (RE2) that a whole string, or each element of a list, must match",
	},
	{Name: "help", Type: catalog.String, Help: "a description for people"},
	// default and enum have no type here, because they have the type of the parameter.
	{Name: "default", Help: "the value of an omitted parameter; without it the parameter is required"},
	{Name: "enum", Help: "a list of all valid values"},
}

// ParamFields returns the schema of a parameter's declaration. Fields without a type have the type of the parameter.
func ParamFields() catalog.Schema { return slices.Clone(paramSchema) }

// paramChecker reads and checks the declaration of parameters, and the reads of parameters by name.
type paramChecker struct {
	scope
	symbol      *syntax.Symbol      // the variable params, nil without a declaration
	misdeclared map[string]bool     // parameters whose declaration was reported; reads of them are not reported
	undeclared  bool                // the whole declaration was reported
	reads       []*parser.StringLit // the names of parameters that are read
}

// declared returns the parameters that the script declares. The declaration is a literal, so the script does not run.
func (c *paramChecker) declared() scripts.Params {
	literal := c.declaration()
	if literal == nil {
		return nil
	}
	var params scripts.Params
	for _, e := range literal.Elements {
		if p, ok := c.param(e); ok {
			params = append(params, p)
		} else {
			c.misdeclared[e.Key] = true
		}
	}
	return params
}

// declaration returns the literal of params := {…} at the top level, or nil if it is missing or unreadable.
func (c *paramChecker) declaration() *parser.MapLit {
	for _, s := range c.Main.Tree.Stmts {
		assign, ok := s.(*parser.AssignStmt)
		if !ok || assign.Token != token.Define || len(assign.LHS) != 1 {
			continue
		}
		name, ok := assign.LHS[0].(*parser.Ident)
		if !ok || name.Name != paramsName {
			continue
		}
		literal, ok := assign.RHS[0].(*parser.MapLit)
		if !ok {
			c.At(diagnostic.CodeParamsLiteral, assign.RHS[0], "params must be a literal map")
			c.undeclared = true
			return nil
		}
		if _, complete := syntax.LiteralValue(literal); !complete {
			c.At(diagnostic.CodeParamsLiteral, unreadable(literal),
				"params must be a literal; this depends on running the script")
			c.undeclared = true
			return nil
		}
		if symbol := c.Symbols[name]; symbol != nil {
			c.symbol = symbol
			if symbol.Assigned {
				c.At(diagnostic.CodeParamsLiteral, name, "params is assigned again below")
			}
		}
		c.duplicateKeys(literal)
		return literal
	}
	return nil
}

// unreadable returns the first part of a literal whose value depends on running the script.
func unreadable(e parser.Expr) parser.Expr {
	found := e
	syntax.Children(e, func(n parser.Node) {
		part, ok := n.(parser.Expr)
		if !ok || found != e {
			return
		}
		if _, complete := syntax.LiteralValue(part); !complete {
			found = unreadable(part)
		}
	})
	return found
}

// param reads the declaration of one parameter.
func (c *paramChecker) param(e *parser.MapElementLit) (scripts.Param, bool) {
	before := len(c.List)
	report := func(code string, path catalog.Path, format string, args ...any) *diagnostic.Diagnostic {
		key, value := syntax.NodeAt(e.Value, path)
		if key != nil && code == diagnostic.CodeParamSchema {
			return c.Add(code, key.KeyPos, syntax.KeyWidth(key), format, args...)
		}
		return c.At(code, value, format, args...)
	}
	given, ok := e.Value.(*parser.MapLit)
	if !ok {
		c.At(diagnostic.CodeParamSchema, e.Value, "the declaration of %q is a map like {type: \"int\", default: 1}", e.Key)
		return scripts.Param{}, false
	}
	if len(e.Key) > 63 || !scripts.ValidParamName(e.Key) {
		c.Add(diagnostic.CodeParamSchema, e.KeyPos, syntax.KeyWidth(e),
			"%q cannot name a parameter: letters, digits and underscores, not beginning with a digit", e.Key)
	}
	c.duplicateKeys(given)
	v, _ := syntax.LiteralValue(given)
	fields, _ := v.(map[string]any)
	own := map[string]any{"default": fields["default"], "enum": fields["enum"]}
	plain := make(map[string]any, len(fields))
	for key, v := range fields {
		if _, isOwn := own[key]; !isOwn {
			plain[key] = v
		}
	}
	for _, problem := range paramSchema.Check(plain, nil) {
		if problem.Reason == catalog.MissingField {
			c.Add(diagnostic.CodeParamSchema, e.KeyPos, syntax.KeyWidth(e), "parameter %q: %s", e.Key, problem.Message)
			continue
		}
		report(diagnostic.CodeParamSchema, problem.Path, "parameter %q: %s", e.Key, problem.Message).Suggest(
			problem.Suggestion)
	}
	if len(c.List) > before {
		return scripts.Param{}, false
	}
	p := scripts.Param{Name: e.Key}
	p.Type, _ = fields["type"].(string)
	p.Of, _ = fields["of"].(string)
	p.Pattern, _ = fields["pattern"].(string)
	p.Help, _ = fields["help"].(string)
	if n, ok := fields["min"].(int64); ok {
		p.Min = &n
	}
	if n, ok := fields["max"].(int64); ok {
		p.Max = &n
	}
	p.Enum, _ = own["enum"].([]any)
	p.Default = own["default"]
	if key, why := p.Contradiction(own["enum"]); why != "" {
		report(diagnostic.CodeParamSchema, catalog.Path{key}, "parameter %q: %s", e.Key, why)
		return scripts.Param{}, false
	}
	if p.Default != nil {
		if why := p.Refuse(p.Default); why != "" {
			report(diagnostic.CodeParamDefault, catalog.Path{"default"}, "the default of %q %s", e.Key, why)
			return scripts.Param{}, false
		}
	}
	return p, true
}

// checkReads checks the parameters that the script and its modules read by name.
func (c *paramChecker) checkReads(params scripts.Params) {
	for _, name := range c.reads {
		if _, ok := params.Named(name.Value); !ok && !c.misdeclared[name.Value] && !c.undeclared {
			d := c.At(diagnostic.CodeUnknownParam, name, "unknown parameter %q", name.Value)
			if !c.Crowded() {
				d.Suggest(meant.Closest(name.Value, params.Names()))
			}
		}
	}
	if c.symbol == nil {
		return
	}
	for name, s := range c.Symbols {
		if s == c.symbol && s.Init != nil && name.Pos() > s.Init.Pos() {
			c.At(diagnostic.CodeParamsRead, name, "params is the declaration, not the values").Help = "write run.params"
		}
	}
}
