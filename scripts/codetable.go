package scripts

// Codes is the one table of diagnostics. A wrong example with an ellipsis in it is only hinted at: it would be too long, or takes several
// files; tests check every other, and every right one.
var Codes = []CodeInfo{
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

	{codeUnusedResult, SeverityWarning, "the result is not used",
		"The expression changes nothing, so without its result it does nothing. `append` in particular returns the longer list and leaves the old one alone: `list = append(list, x)`.",
		`run := import("run")
names := ["a"]
append(names, "b")
run.log(names)`,
		`run := import("run")
names := ["a"]
names = append(names, "b")
run.log(names)`},
	{codeUnusedVariable, SeverityWarning, "a variable is never read",
		"Nothing reads the variable. Often a handle was meant to be passed on and is not, so that a dependency is missing. Leave the name out, or let it begin with an underscore if it is only there to be read by people.",
		`volume := import("volume")
machine := import("machine")
root := volume.create("root", {size_gib: 10})
machine.create("web", {cpus: 2, memory_mib: 2048})`,
		`volume := import("volume")
machine := import("machine")
root := volume.create("root", {size_gib: 10})
machine.create("web", {cpus: 2, memory_mib: 2048, disks: [root]})`},
	{codeUnusedImport, SeverityWarning, "a module is imported and not used",
		"Remove the import: operations of a module count as allowed only where they are used, so it does nothing. Modules of your own are not reported, because their bodies are carried out where they are imported.",
		`text := import("text")
run := import("run")
run.log("hello")`,
		`run := import("run")
run.log("hello")`},
	{codeUnusedParam, SeverityWarning, "a parameter is never read",
		"The script declares the parameter, and neither it nor its modules read it. A value for it has no effect. Read it as `run.params.name`, or remove its declaration.",
		`run := import("run")
params := {count: {type: "int", default: 2}}
run.log("two machines")`,
		`run := import("run")
params := {count: {type: "int", default: 2}}
run.log(run.params.count, "machines")`},
	{codeMissingKey, SeverityWarning, "a map has no such key",
		"The map is written out, nothing is added to it, and it does not have the key. Reading it gives `undefined`, which counts as not given wherever it is passed on.",
		`run := import("run")
sizes := {small: 10, large: 100}
run.log(sizes.medium)`,
		`run := import("run")
sizes := {small: 10, medium: 50, large: 100}
run.log(sizes.medium)`},
	{codeNeverEqual, SeverityWarning, "a comparison that never changes",
		"A handle is equal to itself and to nothing else: not to the name of its resource, and not to `undefined`. Compare one of its fields: `h.name`, `h.err`, `h.err.code`. The field `err` is `undefined` or a map, so compare its code or its message.",
		`volume := import("volume")
run := import("run")
old := volume.get("archive")
if old == undefined {
	run.log("no archive yet")
}`,
		`volume := import("volume")
run := import("run")
old := volume.get("archive")
if old.err {
	run.log("no archive yet:", old.err.code)
}`},
	{codeAlwaysTrue, SeverityWarning, "a handle is always true",
		"A call returns a handle at once, also if it fails later. So as a condition a handle is always true. `h.err` waits for the result and is `undefined` if the call succeeded.",
		`volume := import("volume")
run := import("run")
old := volume.get("archive")
if old {
	run.log("there is an archive")
}`,
		`volume := import("volume")
run := import("run")
old := volume.get("archive")
if !old.err {
	run.log("there is an archive")
}`},
	{codeHiddenImport, SeverityWarning, "a name hides an imported module",
		"Inside of this block the module cannot be used any more. Choose another name.",
		`volume := import("volume")
run := import("run")
for volume in ["a", "b"] {
	run.log(volume)
}
volume.create("c", {size_gib: 1})`,
		`volume := import("volume")
run := import("run")
for name in ["a", "b"] {
	run.log(name)
}
volume.create("c", {size_gib: 1})`},
	{codeUnreachable, SeverityWarning, "this is never carried out",
		"`return`, `break`, `continue` and `run.fail` leave the block, so nothing after them in the same block happens.",
		`run := import("run")
size := func(kind) {
	return 10
	run.log("asked for", kind)
}
run.log(size("small"))`,
		`run := import("run")
size := func(kind) {
	run.log("asked for", kind)
	return 10
}
run.log(size("small"))`},
	{codeLateVariable, SeverityWarning, "a function keeps a variable that goes on changing",
		"All rounds of a loop at the top level share its variables, and those of `for i := …` are shared everywhere. A function that is kept and called later sees the value of the last round. Make it inside of another function that takes the value: `func(i) { return func() { … } }(i)`.",
		`run := import("run")
later := []
for i := 0; i < 3; i++ {
	later = append(later, func() { run.log(i) }) // each logs 3
}
for f in later {
	f()
}`,
		`run := import("run")
later := []
for i := 0; i < 3; i++ {
	later = append(later, func(i) { return func() { run.log(i) } }(i))
}
for f in later {
	f()
}`},
	{codeSameEachRound, SeverityWarning, "the same resource in each round",
		"`create` means \"make it so\". With the same name in each round of a loop there is one resource, not many, and later rounds fail or change it. Make the name from the loop's variable: `\"web-\" + i`.",
		`volume := import("volume")
for i := 0; i < 3; i++ {
	volume.create("data", {size_gib: 10})
}`,
		`volume := import("volume")
for i := 0; i < 3; i++ {
	volume.create("data-" + i, {size_gib: 10})
}`},

	{codeSplitGroup, SeverityWarning, "a read splits what goes together",
		"Calls that are linked by handles get one node together if the script makes all of them before it waits. Reading a field of a result waits. The calls before the read get a node without the later ones. So a later call that needs several of their resources can find them on different nodes. It fails with RESOURCE_CONFLICT or NO_CAPACITY, and a resume of the run does not help. Make all calls first and read results after that, or give each call the same option `node`.",
		`volume := import("volume")
machine := import("machine")
run := import("run")
disks := []
for i := 0; i < 2; i++ {
	disk := volume.create("data-" + i, {size_gib: 10})
	run.log(disk.uid) // here data-0 gets its node
	disks = append(disks, disk)
}
machine.create("db", {cpus: 1, memory_mib: 512, disks: disks})`,
		`volume := import("volume")
machine := import("machine")
run := import("run")
disks := []
for i := 0; i < 2; i++ {
	disks = append(disks, volume.create("data-" + i, {size_gib: 10}))
}
machine.create("db", {cpus: 1, memory_mib: 512, disks: disks})
for disk in disks {
	run.log(disk.uid)
}`},

	{codeHidden, SeverityWarning, "a character that is not seen",
		"A character without width, or one that turns the direction of text, makes a script read other than it is. A comment may be code, and two names that look alike may differ. Such characters are reported in comments and texts too. Remove them. If a text needs one, build it from visible characters.",
		"run := import(\"run\")\nrun.log(\"we\u200bb\")",
		"run := import(\"run\")\nrun.log(\"web\")"},
	{codeDisguised, SeverityWarning, "letters that look like others",
		"A word mixes Latin letters with letters of another script that look like them, or a name consists of such letters. `\u0430dmin` with a Cyrillic a is not `admin`. Write the word with letters of one script.",
		"run := import(\"run\")\n\u0430dmin := 1\nrun.log(\u0430dmin)",
		"run := import(\"run\")\nadmin := 1\nrun.log(admin)"},

	{codeUnordered, SeverityWarning, "related calls run at the same time",
		"Calls about one resource run in the order of the script. Calls about different resources run at the same time, unless one has a handle to the other or the script reads a result between them. So a volume may be restored before its machine has stopped: the call fails with `RESOURCE_BUSY`, or a snapshot lacks the last writes of the machine. Read a field of the first call, such as `state`, before the second one.",
		`machine := import("machine")
volume := import("volume")
disk := volume.create("disk", {size_gib: 10})
web := machine.create("web", {cpus: 1, memory_mib: 512, disks: [disk]})
machine.stop(web)
volume.restore(disk, {snapshot: "before"})
machine.start(web)`,
		`machine := import("machine")
volume := import("volume")
disk := volume.create("disk", {size_gib: 10})
web := machine.create("web", {cpus: 1, memory_mib: 512, disks: [disk]})
machine.stop(web).state
volume.restore(disk, {snapshot: "before"}).uid
machine.start(web)`},

	{codeTestOperation, SeverityError, "a test calls no operations",
		"A file whose name ends with `_test.tengo` holds tests. A test runs scripts on simulated drivers, `t.run(\"web.tengo\")`, and makes no calls itself. So it cannot import `run` and the modules of operations, and neither can the modules that it imports. It can import pure modules (text, json, math, …).",
		`volume := import("volume")
test_volume := func(t) {
	t.ok(volume.create("data", {size_gib: 10}))
}`,
		`test_volume := func(t) {
	r := t.run("data.tengo")
	t.contains(r.steps, "volume.create data")
}`},
	{codeTestMember, SeverityError, "t has no such member",
		"The argument of a test has `run`, `plan`, `call`, `resources`, `equal`, `ok`, `contains`, `fail`, `fatal`, `log` and `skip`; docs/manual/testing.md says what each does.",
		`test_sum := func(t) {
	t.equals(1 + 1, 2)
}`,
		`test_sum := func(t) {
	t.equal(1 + 1, 2)
}`},
	{codeTestShape, SeverityError, "not a test",
		"A test is a function of one argument at the top level: `test_name := func(t) { … }`. The name begins with `test_`; it is defined once and never assigned again. A test file declares no `params`: a test gives those of the script that it runs.",
		`test_sum := func() {
	x := 1 + 1
	return x == 2
}`,
		`test_sum := func(t) {
	t.equal(1 + 1, 2)
}`},
	{codeTestOption, SeverityError, "an option of t.run does not fit",
		"The second argument of `t.run` is a map with `params`, `project`, `deployment`, `nodes`, `fail` and `results`. `nodes` is how many nodes the datacenter has, 2 by default. `fail` looks like `{\"machine.create web-0\": {code: \"NO_CAPACITY\", times: 1}}`, and `results` like `{\"node.facts\": {cpus: 2}}`. Name a call by its operation, and add the name of its resource if you mean only that one. Codes are those of docs/codes.md.",
		`test_full := func(t) {
	t.run("web.tengo", {fail: {"machine.craete web-0": {code: "NO_CAPACITY"}}})
}`,
		`test_full := func(t) {
	t.run("web.tengo", {fail: {"machine.create web-0": {code: "NO_CAPACITY"}}})
}`},
}
