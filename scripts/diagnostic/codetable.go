package diagnostic

import "slices"

// Codes lists every diagnostic. Tests check the examples. A wrong example that contains an ellipsis is only a sketch,
// because it would be too long or need several files; tests skip it.
var Codes = slices.Concat(callCodes, nameCodes, lintCodes)

// callCodes are errors of the text and of calls.
var callCodes = []Info{
	{CodeSyntax, SeverityError, "the source cannot be read",
		"The text is not Tengo. The message names the token that the parser expected. Later mistakes may be " +
			"consequences of the first one. Frequent causes: a bracket or text that is not closed; `=` instead of `:=`; " +
			"words and operators of other languages.",
		`sizes := [1, 2, 3`,
		`sizes := [1, 2, 3]
import("run").log(sizes)`},
	{CodeTooBig, SeverityError, "the source is too big",
		"A file may have 64 KiB, all files of a script together 512 KiB. Scripts describe work; data belongs in images " +
			"and volumes.",
		`names := ["web-0", "web-1", … 64 KiB of names … ]`,
		`run := import("run")
names := []
for i := 0; i < 500; i++ {
	names = append(names, "web-" + i)
}
run.output({names: names})`},
	{CodeTooDeep, SeverityError, "nested too deeply",
		"Brackets, blocks and operators may be nested 200 deep, and one expression may have 1,000 operands. Assign " +
			"parts of it to variables.",
		`total := ((((((((((((((((((((((((((… 200 deep …))))))))))))))))))))))))))`,
		`run := import("run")
inner := 1 + 2
total := 2 * inner
run.log(total)`},
	{CodeTooManyVariables, SeverityError, "too many variables",
		"A function may have 250 live variables, and use 250 variables of outer functions. The top level may have " +
			"1,000, including its loops and blocks. Use a list or a map.",
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
	{CodeTooManyArguments, SeverityError, "too many arguments",
		"A call may have 250 arguments and a function 250 parameters. Pass a list.",
		`f(1, 2, 3, … 250 arguments …)`,
		`f := func(list) { return len(list) }
import("run").log(f([1, 2, 3]))`},
	{CodeLongLiteral, SeverityError, "a list or map is too long",
		"A literal list or map may have 1,000 elements. Build longer lists and maps in a loop.",
		`ports := [8000, 8001, 8002, … 1,000 ports … ]`,
		`run := import("run")
ports := range(8000, 9500)
run.log(len(ports))`},
	{CodeTooManyConstants, SeverityError, "too many literals",
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
	{CodeCompiler, SeverityError, "the script cannot be compiled",
		"Tengo's compiler rejects the script; the message is the compiler's. Earlier checks should have found the " +
			"mistake and explained it better: please report the script.",
		`… no known script passes the earlier checks and fails here …`,
		`import("run").log("hello")`},

	{CodeControl, SeverityError, "a control character",
		"A script may contain no control characters except tabs and the LF at the end of a line. A terminal acts on " +
			"others, so a script with an ESC or a CR could look different from its meaning. It cannot be signed. Control " +
			"characters in comments and texts are reported, too. Remove them; `writ fmt -w` repairs lines that end with CR " +
			"LF, as some editors write them.",
		"run := import(\"run\")\nrun.log(\"a\u0085b\")",
		"run := import(\"run\")\nrun.log(\"a\\nb\")"},
	{CodeUnknownMember, SeverityError, "a module has no such member",
		"The module exists, but has no member of this name. `docs/operations.md` lists the operations of every module, " +
			"and the members of `run` and of modules without operations.",
		`machine := import("machine")
machine.crate("web", {cpus: 2, memory_mib: 2048})`,
		`machine := import("machine")
machine.create("web", {cpus: 2, memory_mib: 2048})`},
	{CodeArity, SeverityError, "wrong number of arguments",
		"An operation takes a name, a spec and options, in this order: `machine.create(\"web\", {cpus: 2}, {retries: " +
			"3})`. Operations without a resource have no name; `get` takes a name only. The options may be omitted, and so " +
			"may spec and options together.",
		`machine := import("machine")
machine.get("web", {cpus: 2})`,
		`machine := import("machine")
machine.get("web")`},
	{CodeArgument, SeverityError, "an argument of the wrong kind",
		"The name of a resource is a string, or a handle to the resource; spec and options are maps.",
		`machine := import("machine")
machine.create("web", 2048)`,
		`machine := import("machine")
machine.create("web", {cpus: 2, memory_mib: 2048})`},
	{CodeUnknownField, SeverityError, "an operation has no such field",
		"The spec of the operation does not have this key. `docs/operations.md` lists its fields.",
		`machine := import("machine")
machine.create("web", {cpus: 2, memory: 2048})`,
		`machine := import("machine")
machine.create("web", {cpus: 2, memory_mib: 2048})`},
	{CodeFieldType, SeverityError, "a field has an invalid value",
		"The field has another type, or the value exceeds its limits. Sizes are whole numbers of MiB or GiB; there are " +
			"no floats.",
		`volume := import("volume")
volume.create("data", {size_gib: "10"})`,
		`volume := import("volume")
volume.create("data", {size_gib: 10})`},
	{CodeFieldMissing, SeverityError, "a required field is missing",
		"The operation requires this field. `docs/operations.md` marks required fields. A field whose value is " +
			"`undefined` counts as missing.",
		`volume := import("volume")
volume.create("data", {})`,
		`volume := import("volume")
volume.create("data", {size_gib: 10})`},
	{CodeUnknownOption, SeverityError, "an unknown option",
		"The options of a call are retries, timeout, on_loss, node, labels, idempotent and adopt.",
		`volume := import("volume")
volume.create("data", {size_gib: 10}, {retry: 3})`,
		`volume := import("volume")
volume.create("data", {size_gib: 10}, {retries: 3})`},
	{CodeOptionValue, SeverityError, "an option has an invalid value",
		"retries is a number from 0 to 100, and timeout a duration like \"5m\". on_loss is \"fail\" or \"wait\", or " +
			"\"replace\" if another node can do the call. node is a name, and labels is a map of strings. idempotent and " +
			"adopt are true or false.",
		`volume := import("volume")
volume.create("data", {size_gib: 10}, {timeout: "5 minutes"})`,
		`volume := import("volume")
volume.create("data", {size_gib: 10}, {timeout: "5m"})`},
	{CodeResourceName, SeverityError, "the name of a resource is invalid",
		"Names have 1 to 63 lower-case letters, digits and hyphens, and do not begin with a hyphen.",
		`volume := import("volume")
volume.create("Data_1", {size_gib: 10})`,
		`volume := import("volume")
volume.create("data-1", {size_gib: 10})`},
	{CodeHandleField, SeverityError, "a handle has no such field",
		"The result of this operation does not have the field. Every handle has `err`, and handles to resources have " +
			"`name`. `docs/operations.md` lists the other fields.",
		`herodb := import("herodb")
store := herodb.create("store", {memory_mib: 512})
import("run").log(store.url)`,
		`herodb := import("herodb")
store := herodb.create("store", {memory_mib: 512})
import("run").log(store.address)`},
	{CodeModuleAsValue, SeverityError, "a module of operations is used as a value",
		"The operations of a script are signed, so they must be visible in its text. Give the module one name, `machine " +
			":= import(\"machine\")`, and use it only as `machine.create`. It cannot be passed to a function, assigned " +
			"again or stored in a list.",
		`volume := import("volume")
operations := [volume]
operations[0].create("data", {size_gib: 10})`,
		`volume := import("volume")
volume.create("data", {size_gib: 10})`},
	{CodeDuplicateKey, SeverityError, "a duplicate key",
		"A map has each key once; the second value would silently replace the first. Remove one of them.",
		`volume := import("volume")
volume.create("data", {size_gib: 10, size_gib: 20})`,
		`volume := import("volume")
volume.create("data", {size_gib: 20})`},
	{CodeSecretPlace, SeverityError, "a secret in the wrong place",
		"run.secret returns a placeholder; no script ever holds the value. The placeholder cannot be part of a text, be " +
			"encoded or be an output, and no value is equal to it. Only run.text puts it into a text, which is a placeholder " +
			"too. Pass a placeholder to a field that takes secrets: env and files of a container, env and cloud_init of a " +
			"machine, password of a database. container.exec takes it as env and stdin. A command line takes none, because " +
			"every process of the host can read it.",
		`machine := import("machine")
run := import("run")
machine.create("web", {cpus: 2, memory_mib: 2048, env: {DB: "redis://:" + run.secret("db")}})`,
		`machine := import("machine")
run := import("run")
machine.create("web", {cpus: 2, memory_mib: 2048, env: {DB: run.text("redis://:{db}", {db: run.secret("db")})}})`},
	{CodeSecretName, SeverityError, "the name of a secret is invalid",
		"The name of a secret has 1 to 63 lower-case letters, digits and hyphens. The version is determined when the " +
			"script is signed, and is part of the signed header.",
		`machine := import("machine")
run := import("run")
machine.create("web", {cpus: 2, memory_mib: 2048, env: {DB_PASSWORD: run.secret("db@3")}})`,
		`machine := import("machine")
run := import("run")
machine.create("web", {cpus: 2, memory_mib: 2048, env: {DB_PASSWORD: run.secret("db")}})`},

	{CodeManyCalls, SeverityError, "more calls than a run may make",
		"A run may make 10,000 calls. The loops of this script make more, so its run would fail after 10,000 of them. " +
			"Divide the work among several runs: a parameter can select the part.",
		`volume := import("volume")
for i := 0; i < 12000; i++ {
	volume.create("data-" + i, {size_gib: 1})
}`,
		`params := {from: {type: "int", default: 0, help: "0 or 6000"}}
run := import("run")
volume := import("volume")
for i := 0; i < 6000; i++ {
	volume.create("data-" + (run.params.from + i), {size_gib: 1})
}`},
}
