package diagnostic

// nameCodes are errors of names, imports and parameters.
var nameCodes = []Info{
	{CodeUnresolved, SeverityError, "an unknown name",
		"The name is not defined before this place. Modules need `name := import(\"name\")`; a function can be used " +
			"only below its definition.",
		`run := import("run")
count := 3
run.log(conut)`,
		`run := import("run")
count := 3
run.log(count)`},
	{CodeRedeclared, SeverityError, "a name is defined twice",
		"`:=` makes a new variable; the name is taken in this block. To change the variable, use `=`.",
		`run := import("run")
total := 1
total := total + 1
run.log(total)`,
		`run := import("run")
total := 1
total = total + 1
run.log(total)`},
	{CodeBuiltinName, SeverityError, "the name of a builtin function",
		"Names of builtin functions (len, copy, append, string, time, …) cannot be given to variables.",
		`run := import("run")
len := 3
run.log(len)`,
		`run := import("run")
length := 3
run.log(length)`},
	{CodeUnknownModule, SeverityError, "an unknown module",
		"No module of this name is built in. Names that begin with `lib/` are modules of the library, with their " +
			"version (`writ library list`). Other modules are files beside the script, NAME.tengo, or files that `--module " +
			"NAME=FILE` names. Modules such as `os`, `rand` and `fmt` are not available: a script can only call " +
			"operations, so that it can be repeated.",
		`os := import("os")
os.exit(1)`,
		`run := import("run")
run.fail("stop here")`},
	{CodeImportCycle, SeverityError, "modules import each other",
		"A module runs where it is imported, so it cannot import itself, directly or through others.",
		`// in a.tengo:
b := import("b")
export {double: func(x) { return b.times(x, 2) }}
// in b.tengo:
a := import("a")
export {…}`,
		`times := func(x, n) { return x * n }
double := func(x) { return times(x, 2) }
import("run").log(double(2))`},
	{CodeReservedModule, SeverityError, "the name of a script or module is invalid",
		"A module of yours has the name of a built-in module, or a name that a signed text cannot contain. Names of " +
			"scripts and modules have 1 to 128 letters, digits and _./@+-. Give it another name.",
		`// a signed text with its own module "text": …`,
		`text := import("text") // the built-in one; call yours site/text
import("run").log(text.to_upper("a"))`},
	{CodeMisplaced, SeverityError, "a statement in the wrong place",
		"`return` belongs in a function, `break` and `continue` in a loop of the same function, `export` at the top " +
			"level of a module. Labels are not supported.",
		`count := 0
if count == 0 {
	return
}`,
		`run := import("run")
main := func() {
	if run.project == "trial" {
		return
	}
	run.log("not a trial")
}
main()`},
	{CodeAssignment, SeverityError, "this cannot be assigned",
		"The left side of an assignment is one variable, or an element of one: `x = 1`, `m.key = 1`, `a[0] = 1`; `:=` " +
			"takes a name only.",
		`run := import("run")
a, b := 1, 2
run.log(a, b)`,
		`run := import("run")
a := 1
b := 2
run.log(a, b)`},
	{CodeExportIgnored, SeverityWarning, "export has no effect here",
		"Only modules export. Use `run.output({…})` for the results of a script.",
		`export {answer: 42}`,
		`run := import("run")
run.output({answer: 42})`},

	{CodeNoMember, SeverityError, "a value has no such member or operator",
		"Texts, lists and numbers have no members, and texts have no operators except `+` and comparisons. The run fails " +
			"at this place. Functions do the work of the members of other languages: `append(list, x)`, `len(list)`, the " +
			"module `text`, and `format(\"%d\", n)` instead of the operator `%`.",
		`run := import("run")
names := ["a"]
names.push("b")
run.log(names)`,
		`run := import("run")
names := ["a"]
names = append(names, "b")
run.log(names)`},
	{CodeParamsLiteral, SeverityError, "params is not a literal",
		"Parameters are read without running the script, so `params := {…}` must be a literal. It holds strings, " +
			"numbers, true, false, lists and maps of these. It is defined once, at the top level, and is never assigned " +
			"again.",
		`run := import("run")
most := 50
params := {count: {type: "int", default: 2, max: most}}
run.log(run.params.count)`,
		`run := import("run")
params := {count: {type: "int", default: 2, max: 50}}
run.log(run.params.count)`},
	{CodeParamSchema, SeverityError, "a parameter is not declared properly",
		"A parameter is a map. Its keys are type (\"string\", \"bool\", \"int\" or \"list\"), of (the type of a list's " +
			"elements), default, min, max, enum, pattern and help.",
		`run := import("run")
params := {count: {type: "integer", default: 2}}
run.log(run.params.count)`,
		`run := import("run")
params := {count: {type: "int", default: 2}}
run.log(run.params.count)`},
	{CodeParamDefault, SeverityError, "a default does not fit its parameter",
		"The default must be a valid value of the parameter: of its type, within min and max, one of enum, matching pattern.",
		`run := import("run")
params := {count: {type: "int", default: 200, max: 50}}
run.log(run.params.count)`,
		`run := import("run")
params := {count: {type: "int", default: 20, max: 50}}
run.log(run.params.count)`},
	{CodeUnknownParam, SeverityError, "an unknown parameter",
		"The script reads a parameter that `params` does not declare. Declare it with its type, or correct the name; an " +
			"undeclared parameter cannot be given on the command line either.",
		`run := import("run")
params := {count: {type: "int", default: 2}}
run.log(run.params.count, run.params.size)`,
		`run := import("run")
params := {count: {type: "int", default: 2}, size: {type: "int", default: 10}}
run.log(run.params.count, run.params.size)`},
	{CodeParamsRead, SeverityWarning, "the declaration is read instead of the values",
		"`params` is the declaration. The values of this run are in `run.params`.",
		`run := import("run")
params := {count: {type: "int", default: 2}}
run.log(run.params.count, params.count)`,
		`run := import("run")
params := {count: {type: "int", default: 2}}
run.log(run.params.count)`},
}
