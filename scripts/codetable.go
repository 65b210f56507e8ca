package scripts

import "slices"

// Codes lists every diagnostic. Tests check the examples. A wrong example that contains an ellipsis is only a sketch,
// because it would be too long or need several files; tests skip it.
var Codes = slices.Concat(checkCodes, lintCodes)

// checkCodes are the codes of check: errors of the text, calls, names and parameters.
var checkCodes = []CodeInfo{
	{codeSyntax, SeverityError, "the source cannot be read",
		"The text is not Tengo. The message names the token that the parser expected. Later mistakes may be consequences of the first one. Frequent causes: a bracket or text that is not closed; `=` instead of `:=`; words and operators of other languages.",
		`sizes := [1, 2, 3`,
		`sizes := [1, 2, 3]
import("run").log(sizes)`},
	{codeTooBig, SeverityError, "the source is too big",
		"A file may have 64 KiB, all files of a script together 512 KiB. Scripts describe work; data belongs in images and volumes.",
		`names := ["web-0", "web-1", … 64 KiB of names … ]`,
		`run := import("run")
names := []
for i := 0; i < 500; i++ {
	names = append(names, "web-" + i)
}
run.output({names: names})`},
	{codeTooDeep, SeverityError, "nested too deeply",
		"Brackets, blocks and operators may be inside each other 200 deep, and one expression may have 1,000 operands. Give parts of it a name.",
		`total := ((((((((((((((((((((((((((… 200 deep …))))))))))))))))))))))))))`,
		`run := import("run")
inner := 1 + 2
total := 2 * inner
run.log(total)`},
	{codeTooManyVars, SeverityError, "too many variables",
		"A function may have 250 variables alive at once, and use 250 of the functions around it. The top level may have 1,000, including those inside its loops and blocks. Use a list or a map.",
		`web0 := 1
web1 := 1
… and so on …
web1000 := 1`,
		`run := import("run")
web := {}
for i := 0; i <= 1000; i++ {
	web["web-" + i] = 1
}
run.log(len(web))`},
	{codeTooManyArgs, SeverityError, "too many arguments",
		"A call may have 250 arguments and a function 250 parameters. Pass a list.",
		`f(1, 2, 3, … 250 arguments …)`,
		`f := func(list) { return len(list) }
import("run").log(f([1, 2, 3]))`},
	{codeLongLiteral, SeverityError, "a list or map is too long",
		"A list or map that is written out may have 1,000 elements. Build longer ones in a loop.",
		`ports := [8000, 8001, 8002, … 1,000 ports … ]`,
		`run := import("run")
ports := range(8000, 9500)
run.log(len(ports))`},
	{codeTooManyConst, SeverityError, "too many literals",
		"A script and its modules may hold 65,000 literals together. Compute tables in a loop, or take them from parameters.",
		`a := import("site/table1") // 30,000 numbers
b := import("site/table2") // 30,000 numbers
… and so on …`,
		`run := import("run")
squares := []
for i := 0; i < 100; i++ {
	squares = append(squares, i * i)
}
run.log(squares)`},
	{codeCompiler, SeverityError, "the script cannot be compiled",
		"The compiler of Tengo refuses the script; the message has its words. The checks before it should have found this with a better message: please report the script.",
		`… there is no script known that the checks before it let through …`,
		`import("run").log("hello")`},

	{codeControl, SeverityError, "a control character",
		"A script may have no control characters but tabs and the LF that ends a line. A terminal acts on others, so a script with an ESC or a CR could show something else than it is. It cannot be signed. They are reported in comments and texts too. Remove them; `writ fmt -w` repairs lines that end with CR and LF, as some editors write them.",
		"run := import(\"run\")\nrun.log(\"a\u0085b\")",
		"run := import(\"run\")\nrun.log(\"a\\nb\")"},
	{codeUnknownMember, SeverityError, "a module has no such member",
		"The module exists and has nothing of this name. `docs/operations.md` lists the operations of every module, and what `run` and the modules without operations have.",
		`machine := import("machine")
machine.crate("web", {cpus: 2, memory_mib: 2048})`,
		`machine := import("machine")
machine.create("web", {cpus: 2, memory_mib: 2048})`},
	{codeArity, SeverityError, "wrong number of arguments",
		"An operation takes a name, a spec and options, in this order: `machine.create(\"web\", {cpus: 2}, {retries: 3})`. Operations that are about no resource have no name; `get` takes a name only. Spec and options may be left out from the end.",
		`machine := import("machine")
machine.get("web", {cpus: 2})`,
		`machine := import("machine")
machine.get("web")`},
	{codeArgument, SeverityError, "an argument is of the wrong kind",
		"The name of a resource is a string, or a handle to the resource; spec and options are maps.",
		`machine := import("machine")
machine.create("web", 2048)`,
		`machine := import("machine")
machine.create("web", {cpus: 2, memory_mib: 2048})`},
	{codeUnknownField, SeverityError, "an operation has no such field",
		"The spec of the operation does not have this key. `docs/operations.md` lists what it has.",
		`machine := import("machine")
machine.create("web", {cpus: 2, memory: 2048})`,
		`machine := import("machine")
machine.create("web", {cpus: 2, memory_mib: 2048})`},
	{codeFieldType, SeverityError, "a field has a value that does not fit",
		"The field takes another type, or the value is out of its bounds. Sizes are whole numbers of MiB or GiB; there are no floats.",
		`volume := import("volume")
volume.create("data", {size_gib: "10"})`,
		`volume := import("volume")
volume.create("data", {size_gib: 10})`},
	{codeFieldMissing, SeverityError, "a required field is missing",
		"The operation cannot do without this field. `docs/operations.md` marks those that are required. A field whose value is `undefined` counts as not given.",
		`volume := import("volume")
volume.create("data", {})`,
		`volume := import("volume")
volume.create("data", {size_gib: 10})`},
	{codeUnknownOption, SeverityError, "there is no such option",
		"The options of a call are retries, timeout, on_loss, node, labels, idempotent and adopt.",
		`volume := import("volume")
volume.create("data", {size_gib: 10}, {retry: 3})`,
		`volume := import("volume")
volume.create("data", {size_gib: 10}, {retries: 3})`},
	{codeOptionValue, SeverityError, "an option has a value that does not fit",
		"retries is a number from 0 to 100, and timeout a duration like \"5m\". on_loss is \"fail\" or \"wait\", or \"replace\" if another node can do the call. node is a name, and labels is a map of strings. idempotent and adopt are true or false.",
		`volume := import("volume")
volume.create("data", {size_gib: 10}, {timeout: "5 minutes"})`,
		`volume := import("volume")
volume.create("data", {size_gib: 10}, {timeout: "5m"})`},
	{codeResourceName, SeverityError, "not a name for a resource",
		"Names have 1 to 63 lower-case letters, digits and hyphens, and do not begin with a hyphen.",
		`volume := import("volume")
volume.create("Data_1", {size_gib: 10})`,
		`volume := import("volume")
volume.create("data-1", {size_gib: 10})`},
	{codeHandleField, SeverityError, "a handle has no such field",
		"The result of this operation does not have the field. Every handle has `err`, those of resources have `name`; the others are in `docs/operations.md`.",
		`herodb := import("herodb")
store := herodb.create("store", {memory_mib: 512})
import("run").log(store.url)`,
		`herodb := import("herodb")
store := herodb.create("store", {memory_mib: 512})
import("run").log(store.address)`},
	{codeModuleAsValue, SeverityError, "a module of operations is used as a value",
		"What a script may do is signed, so it must be seen in its text: give the module one name, `machine := import(\"machine\")`, and use it only as `machine.create`. It cannot be passed on, assigned again or put into a list.",
		`volume := import("volume")
operations := [volume]
operations[0].create("data", {size_gib: 10})`,
		`volume := import("volume")
volume.create("data", {size_gib: 10})`},
	{codeDuplicateKey, SeverityError, "a key is there twice",
		"A map has each key once; the second value would silently replace the first. Remove one of them.",
		`volume := import("volume")
volume.create("data", {size_gib: 10, size_gib: 20})`,
		`volume := import("volume")
volume.create("data", {size_gib: 20})`},
	{codeSecretPlace, SeverityError, "a secret stands where it may not",
		"run.secret returns a placeholder for a value that no script ever holds. You cannot put it into a text, encode it or put it out, and it equals nothing. Give it as it is to a field that takes secrets: env of machines and containers, cloud_init of a machine, password of a database. container.exec takes it as env and stdin. A command line takes none, because every process of the host can read it.",
		`machine := import("machine")
run := import("run")
machine.create("web", {cpus: 2, memory_mib: 2048, env: {DB: "redis://:" + run.secret("db")}})`,
		`machine := import("machine")
run := import("run")
machine.create("web", {cpus: 2, memory_mib: 2048, env: {DB_PASSWORD: run.secret("db")}})`},
	{codeSecretName, SeverityError, "not a name for a secret",
		"The name of a secret has 1 to 63 lower-case letters, digits and hyphens. Which version it is, is found when the script is signed and stands in the signed header.",
		`machine := import("machine")
run := import("run")
machine.create("web", {cpus: 2, memory_mib: 2048, env: {DB_PASSWORD: run.secret("db@3")}})`,
		`machine := import("machine")
run := import("run")
machine.create("web", {cpus: 2, memory_mib: 2048, env: {DB_PASSWORD: run.secret("db")}})`},

	{codeManyCalls, SeverityError, "more calls than a run may make",
		"A run may make 2,000 calls. The loops of this script make more, so its run would fail after 2,000 of them. Divide the work among several runs: a parameter can select the part.",
		`volume := import("volume")
for i := 0; i < 2500; i++ {
	volume.create("data-" + i, {size_gib: 1})
}`,
		`params := {from: {type: "int", default: 0, help: "0 or 1250"}}
run := import("run")
volume := import("volume")
for i := 0; i < 1250; i++ {
	volume.create("data-" + (run.params.from + i), {size_gib: 1})
}`},
	{codeUnresolved, SeverityError, "an unknown name",
		"Nothing of this name is defined before this place. Modules need `name := import(\"name\")`; a function can be used only below its definition.",
		`run := import("run")
count := 3
run.log(conut)`,
		`run := import("run")
count := 3
run.log(count)`},
	{codeRedeclared, SeverityError, "a name is defined twice",
		"`:=` makes a new variable; the name is taken in this block. To change the variable, use `=`.",
		`run := import("run")
total := 1
total := total + 1
run.log(total)`,
		`run := import("run")
total := 1
total = total + 1
run.log(total)`},
	{codeBuiltinName, SeverityError, "the name of a builtin function",
		"Names of builtin functions (len, copy, append, string, time, …) cannot be given to variables.",
		`run := import("run")
len := 3
run.log(len)`,
		`run := import("run")
length := 3
run.log(length)`},
	{codeUnknownModule, SeverityError, "an unknown module",
		"No module of this name is built in. Names that begin with `lib/` are modules of the library, with their version (`writ library list`). Other modules are files beside the script, NAME.tengo, or files that `--module NAME=FILE` names. There is no `os`, `rand` or `fmt`: a script reaches only operations, so that it can be repeated.",
		`os := import("os")
os.exit(1)`,
		`run := import("run")
run.fail("stop here")`},
	{codeImportCycle, SeverityError, "modules import each other",
		"A module is carried out where it is imported, so it cannot import itself, not even through others.",
		`// in a.tengo:
b := import("b")
export {double: func(x) { return b.times(x, 2) }}
// in b.tengo:
a := import("a")
export {…}`,
		`times := func(x, n) { return x * n }
double := func(x) { return times(x, 2) }
import("run").log(double(2))`},
	{codeReservedModule, SeverityError, "not a name for a script or module of your own",
		"A module of your own has the name of one that is built in, or a name that no signed text can hold. Names of scripts and modules have 1 to 128 letters, digits and _./@+-. Give it another name.",
		`// a signed text with a module of its own that is called "text": …`,
		`text := import("text") // the built-in one; call yours site/text
import("run").log(text.to_upper("a"))`},
	{codeMisplaced, SeverityError, "a statement in the wrong place",
		"`return` belongs into a function, `break` and `continue` into a loop of the same function, `export` to the top level of a module. There are no labels.",
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
	{codeAssignment, SeverityError, "this cannot be assigned",
		"The left side of an assignment is one variable, or an element of one: `x = 1`, `m.key = 1`, `a[0] = 1`; `:=` takes a name only.",
		`run := import("run")
a, b := 1, 2
run.log(a, b)`,
		`run := import("run")
a := 1
b := 2
run.log(a, b)`},
	{codeExportIgnored, SeverityWarning, "export does nothing here",
		"Only modules export. Use `run.output({…})` to hand out results of a script.",
		`export {answer: 42}`,
		`run := import("run")
run.output({answer: 42})`},

	{codeParamsLiteral, SeverityError, "params is not a literal",
		"Parameters are read without running the script, so `params := {…}` must be written out. It holds strings, numbers, true, false, lists and maps of these. It stands once, at the top level, and is never assigned again.",
		`run := import("run")
most := 50
params := {count: {type: "int", default: 2, max: most}}
run.log(run.params.count)`,
		`run := import("run")
params := {count: {type: "int", default: 2, max: 50}}
run.log(run.params.count)`},
	{codeParamSchema, SeverityError, "a parameter is not declared properly",
		"A parameter is a map. Its keys are type (\"string\", \"bool\", \"int\" or \"list\"), of (what a list holds), default, min, max, enum, pattern and help.",
		`run := import("run")
params := {count: {type: "integer", default: 2}}
run.log(run.params.count)`,
		`run := import("run")
params := {count: {type: "int", default: 2}}
run.log(run.params.count)`},
	{codeParamDefault, SeverityError, "a default does not fit its parameter",
		"The default must itself be a value that the parameter takes: of its type, within min and max, one of enum, matching pattern.",
		`run := import("run")
params := {count: {type: "int", default: 200, max: 50}}
run.log(run.params.count)`,
		`run := import("run")
params := {count: {type: "int", default: 20, max: 50}}
run.log(run.params.count)`},
	{codeUnknownParam, SeverityError, "an unknown parameter",
		"The script reads a parameter that `params` does not declare. Declare it with its type, or correct the name; what is not declared cannot be given on the command line either.",
		`run := import("run")
params := {count: {type: "int", default: 2}}
run.log(run.params.count, run.params.size)`,
		`run := import("run")
params := {count: {type: "int", default: 2}, size: {type: "int", default: 10}}
run.log(run.params.count, run.params.size)`},
	{codeParamsRead, SeverityWarning, "the declaration is read instead of the values",
		"`params` is the declaration. The values of this run are in `run.params`.",
		`run := import("run")
params := {count: {type: "int", default: 2}}
run.log(run.params.count, params.count)`,
		`run := import("run")
params := {count: {type: "int", default: 2}}
run.log(run.params.count)`},
}
