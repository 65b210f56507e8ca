package diagnostic

// lintCodes are the codes of lint and of test files.
var lintCodes = []Info{
	{CodeUnusedResult, SeverityWarning, "the result is not used",
		"The expression has no effect except its result. `append`, for example, returns a longer list and does not " +
			"change the old one: `list = append(list, x)`.",
		`run := import("run")
names := ["a"]
append(names, "b")
run.log(names)`,
		`run := import("run")
names := ["a"]
names = append(names, "b")
run.log(names)`},
	{CodeUnusedVariable, SeverityWarning, "a variable is never read",
		"The variable is never read. Often a handle should be an argument of a later call, so a dependency is missing. " +
			"Omit the name, or begin it with an underscore if it is only for readers of the script.",
		`volume := import("volume")
machine := import("machine")
root := volume.create("root", {size_gib: 10})
machine.create("web", {cpus: 2, memory_mib: 2048})`,
		`volume := import("volume")
machine := import("machine")
root := volume.create("root", {size_gib: 10})
machine.create("web", {cpus: 2, memory_mib: 2048, disks: [root]})`},
	{CodeUnusedImport, SeverityWarning, "a module is imported and not used",
		"Remove the import, which has no effect: a script allows only the operations that it uses. Your own modules are " +
			"not reported, because an import runs their statements.",
		`text := import("text")
run := import("run")
run.log("hello")`,
		`run := import("run")
run.log("hello")`},
	{CodeUnusedParam, SeverityWarning, "a parameter is never read",
		"The script declares the parameter, and neither it nor its modules read it. A value for it has no effect. Read " +
			"it as `run.params.name`, or remove its declaration.",
		`run := import("run")
params := {count: {type: "int", default: 2}}
run.log("two machines")`,
		`run := import("run")
params := {count: {type: "int", default: 2}}
run.log(run.params.count, "machines")`},
	{CodeMissingKey, SeverityWarning, "a map has no such key",
		"The map is a literal without this key, and the script adds no key to it. Reading the key gives `undefined`, " +
			"which counts as missing in arguments.",
		`run := import("run")
sizes := {small: 10, large: 100}
run.log(sizes.medium)`,
		`run := import("run")
sizes := {small: 10, medium: 50, large: 100}
run.log(sizes.medium)`},
	{CodeNeverEqual, SeverityWarning, "a comparison that never changes",
		"A handle is equal only to itself: not to the name of its resource, and not to `undefined`. Compare one of its " +
			"fields: `h.name`, `h.err`, `h.err.code`. The field `err` is `undefined` or a map, so compare its code or its " +
			"message.",
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
	{CodeAlwaysTrue, SeverityWarning, "a handle is always true",
		"A call returns a handle at once, also if it fails later. So as a condition a handle is always true. `h.err` " +
			"waits for the result and is `undefined` if the call succeeded.",
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
	{CodeHiddenImport, SeverityWarning, "a name hides an imported module",
		"The module cannot be used inside this block. Choose another name.",
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
	{CodeUnreachable, SeverityWarning, "unreachable statements",
		"`return`, `break`, `continue` and `run.fail` leave the block, so later statements of the same block never run.",
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
	{CodeLateVariable, SeverityWarning, "a function captures a variable that changes later",
		"All rounds of a loop at the top level share its variables. The variable of `for i := …` is shared everywhere. " +
			"A stored function that is called later sees the value of the last round. Create it in another function that " +
			"takes the value: `func(i) { return func() { … } }(i)`.",
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
	{CodeSameEachRound, SeverityWarning, "the same resource in each round",
		"`create` means \"make it so\". With the same name in each round of a loop there is one resource, not many, and " +
			"later rounds fail or change it. Make the name from the loop's variable: `\"web-\" + i`.",
		`volume := import("volume")
for i := 0; i < 3; i++ {
	volume.create("data", {size_gib: 10})
}`,
		`volume := import("volume")
for i := 0; i < 3; i++ {
	volume.create("data-" + i, {size_gib: 10})
}`},

	{CodeHidden, SeverityWarning, "an invisible character",
		"A character without width, or one that changes the direction of text, makes a script look different from its " +
			"meaning. A comment may be code, and two names that look alike may differ. Such characters are reported in " +
			"comments and texts too. Remove them. If a text needs one, build it from visible characters.",
		"run := import(\"run\")\nrun.log(\"we\u200bb\")",
		"run := import(\"run\")\nrun.log(\"web\")"},
	{CodeDisguised, SeverityWarning, "letters that look like other letters",
		"A word mixes Latin letters with letters of another script that look like them, or a name consists of such " +
			"letters. `\u0430dmin` with a Cyrillic a is not `admin`. Write the word with letters of one script.",
		"run := import(\"run\")\n\u0430dmin := 1\nrun.log(\u0430dmin)",
		"run := import(\"run\")\nadmin := 1\nrun.log(admin)"},

	{CodeUnordered, SeverityWarning, "related calls run at the same time",
		"Calls about one resource run in the order of the script. Calls about different resources run at the same time, " +
			"unless one has a handle to the other or the script reads a result between them. So a volume may be restored " +
			"before its machine has stopped: the call fails with `RESOURCE_BUSY`, or a snapshot lacks the last writes of " +
			"the machine. A container may start before the migration of its database with `container.run` has ended. Read a " +
			"field of the first call, such as `state` or `exit_code`, before the second call.",
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
	{CodeNoEffect, SeverityWarning, "a script without an effect",
		"The script and its modules call no operation, log no line and have no output. Each run succeeds without an " +
			"effect. The file may be empty or commented out. Call an operation, or log a line with `run.log` if the " +
			"run is a test.",
		`// volume := import("volume")
// volume.create("disk", {size_gib: 10})`,
		`volume := import("volume")
volume.create("disk", {size_gib: 10})`},

	{CodeInterpolation, SeverityWarning, "a text does not contain the value of a variable",
		"The text has `${name}`, and `name` is a variable or a parameter. Scripts do not replace it: the text keeps these " +
			"characters. Join texts and values with `+`, or write `format(\"web-%d\", n)`.",
		`run := import("run")
name := "web"
run.output({name: name, disk: "${name}-disk"})`,
		`run := import("run")
name := "web"
run.output({name: name, disk: name + "-disk"})`},

	{CodeTestOperation, SeverityError, "a test calls no operations",
		"A file whose name ends with `_test.tengo` holds tests. A test runs scripts on simulated drivers, " +
			"`t.run(\"web.tengo\")`, and makes no calls itself. So it cannot import `run` and the modules of operations, " +
			"and neither can the modules that it imports. It can import pure modules (text, json, math, …).",
		`volume := import("volume")
test_volume := func(t) {
	t.ok(volume.create("data", {size_gib: 10}))
}`,
		`test_volume := func(t) {
	r := t.run("data.tengo")
	t.contains(r.steps, "volume.create data")
}`},
	{CodeTestMember, SeverityError, "t has no such member",
		"The argument of a test has `run`, `plan`, `call`, `resources`, `equal`, `ok`, `contains`, `fail`, `fatal`, " +
			"`log` and `skip`; docs/manual/testing.md describes them.",
		`test_sum := func(t) {
	t.equals(1 + 1, 2)
}`,
		`test_sum := func(t) {
	t.equal(1 + 1, 2)
}`},
	{CodeTestShape, SeverityError, "not a test",
		"A test is a function of one argument at the top level: `test_name := func(t) { … }`. The name begins with " +
			"`test_`; it is defined once and never assigned again. A test file declares no `params`: a test passes " +
			"parameters to the script that it runs.",
		`test_sum := func() {
	x := 1 + 1
	return x == 2
}`,
		`test_sum := func(t) {
	t.equal(1 + 1, 2)
}`},
	{CodeTestOption, SeverityError, "an option of t.run does not fit",
		"The second argument of `t.run` is a map with `params`, `project`, `deployment`, `nodes`, `fail` and `results`. " +
			"`nodes` is the number of nodes of the datacenter, 2 by default. `fail` looks like `{\"machine.create web-0\": " +
			"{code: \"NO_CAPACITY\", times: 1}}`, and `results` like `{\"node.facts\": {cpus: 2}}`. Name a call by its " +
			"operation. Add the name of its resource to select only that one. docs/codes.md lists the codes.",
		`test_full := func(t) {
	t.run("web.tengo", {fail: {"machine.craete web-0": {code: "NO_CAPACITY"}}})
}`,
		`test_full := func(t) {
	t.run("web.tengo", {fail: {"machine.create web-0": {code: "NO_CAPACITY"}}})
}`},
}
