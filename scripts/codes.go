package scripts

import "slices"

// Severity says whether a diagnostic stops a script.
type Severity string

// The severities.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// CodeInfo is what is known about the code of a diagnostic.
type CodeInfo struct {
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	Title    string   `json:"title"`
	Explain  string   `json:"explain"` // what it means and what to do, for `writ explain`
}

// The codes of diagnostics: 00 the source and its size, 01 operations and their arguments, 02 names and imports, 03 parameters,
// 04 what is possible and most likely a mistake.
const (
	codeSyntax       = "W0001"
	codeTooBig       = "W0002"
	codeTooDeep      = "W0003"
	codeTooManyVars  = "W0004"
	codeTooManyArgs  = "W0005"
	codeLongLiteral  = "W0006"
	codeTooManyConst = "W0007"
	codeCompiler     = "W0008"

	codeUnknownMember  = "W0101"
	codeArity          = "W0102"
	codeArgument       = "W0103"
	codeUnknownField   = "W0104"
	codeFieldType      = "W0105"
	codeFieldMissing   = "W0106"
	codeUnknownOption  = "W0107"
	codeOptionValue    = "W0108"
	codeResourceName   = "W0109"
	codeHandleField    = "W0110"
	codeModuleAsValue  = "W0111"
	codeDuplicateKey   = "W0112"
	codeSecretPlace    = "W0113"
	codeSecretName     = "W0114"
	codeUnresolved     = "W0201"
	codeRedeclared     = "W0202"
	codeBuiltinName    = "W0203"
	codeUnknownModule  = "W0204"
	codeImportCycle    = "W0205"
	codeReservedModule = "W0206"
	codeMisplaced      = "W0207"
	codeAssignment     = "W0208"
	codeExportIgnored  = "W0209"

	codeParamsLiteral = "W0301"
	codeParamSchema   = "W0302"
	codeParamDefault  = "W0303"
	codeUnknownParam  = "W0304"
	codeParamsRead    = "W0305"

	codeUnusedResult   = "W0401"
	codeUnusedVariable = "W0402"
	codeUnusedImport   = "W0403"
	codeUnusedParam    = "W0404"
	codeMissingKey     = "W0405"
	codeNeverEqual     = "W0406"
	codeAlwaysTrue     = "W0407"
	codeHiddenImport   = "W0408"
	codeUnreachable    = "W0409"
	codeLateVariable   = "W0410"
	codeSameEachRound  = "W0411"
)

// Codes is the one table of diagnostics.
var Codes = []CodeInfo{
	{codeSyntax, SeverityError, "the source cannot be read",
		"The text is not Tengo. The message says what was expected where the reader stopped; mistakes after it may only follow from it. Frequent causes: a comma after the last element of a list, map or call; a missing `:=`; a string that is not closed."},
	{codeTooBig, SeverityError, "the source is too big",
		"A file may have 64 KiB, all files of a script together 512 KiB. Scripts describe work; data belongs in images and volumes."},
	{codeTooDeep, SeverityError, "nested too deeply",
		"Brackets, blocks and operators may be inside each other 200 deep, and one expression may have 1,000 operands. Give parts of it a name."},
	{codeTooManyVars, SeverityError, "too many variables",
		"A function may have 250 variables alive at once and use 250 of the functions around it; the top level may have 1,000, those inside its loops and blocks included. Use a list or a map."},
	{codeTooManyArgs, SeverityError, "too many arguments",
		"A call may have 250 arguments and a function 250 parameters. Pass a list."},
	{codeLongLiteral, SeverityError, "a list or map is too long",
		"A list or map that is written out may have 1,000 elements. Build longer ones in a loop."},
	{codeTooManyConst, SeverityError, "too many literals",
		"A script and its modules may hold 65,000 literals together."},
	{codeCompiler, SeverityError, "the script cannot be compiled",
		"The compiler of Tengo refuses the script; the message has its words."},

	{codeUnknownMember, SeverityError, "a module has no such member",
		"The module exists and has nothing of this name. The manual lists what it has."},
	{codeArity, SeverityError, "wrong number of arguments",
		"An operation takes a name, a spec and options, in this order: `machine.create(\"web\", {cpus: 2}, {retries: 3})`. Operations that are about no resource have no name; `get` takes a name only. Spec and options may be left out from the end."},
	{codeArgument, SeverityError, "an argument is of the wrong kind",
		"The name of a resource is a string, or a handle to the resource; spec and options are maps."},
	{codeUnknownField, SeverityError, "an operation has no such field",
		"The spec of the operation does not have this key. `docs/operations.md` lists what it has."},
	{codeFieldType, SeverityError, "a field has a value that does not fit",
		"The field takes another type, or the value is out of its bounds. Sizes are whole numbers of MiB or GiB; there are no floats."},
	{codeFieldMissing, SeverityError, "a required field is missing",
		"The operation cannot do without this field."},
	{codeUnknownOption, SeverityError, "there is no such option",
		"The options of a call are retries, timeout, on_loss, node, labels, idempotent and adopt."},
	{codeOptionValue, SeverityError, "an option has a value that does not fit",
		"retries is a number from 0 to 100, timeout a duration like \"5m\", on_loss \"fail\" or \"wait\", node a name, labels a map of strings, idempotent and adopt are true or false."},
	{codeResourceName, SeverityError, "not a name for a resource",
		"Names have 1 to 63 lower-case letters, digits and hyphens, and do not begin with a hyphen."},
	{codeHandleField, SeverityError, "a handle has no such field",
		"The result of this operation does not have the field. Every handle has `err`, those of resources have `name`; the others are in `docs/operations.md`."},
	{codeModuleAsValue, SeverityError, "a module of operations is used as a value",
		"What a script may do is signed, so it must be seen in its text: give the module one name, `machine := import(\"machine\")`, and use it only as `machine.create`. It cannot be passed on, assigned again or put into a list."},
	{codeDuplicateKey, SeverityError, "a key is there twice",
		"The second value would silently replace the first."},
	{codeSecretPlace, SeverityError, "a secret stands where it may not",
		"What run.secret returns stands for a value that no script ever holds, so it cannot be put into a text, encoded or be part of the output, and it is equal to nothing. It can be given to a field that takes secrets, as it is: the env of machines and containers, the cloud_init of a machine, the password of a database, the env and stdin of container.exec. A command line takes none, because every process of the host can read it."},
	{codeSecretName, SeverityError, "not a name for a secret",
		"The name of a secret has 1 to 63 lower-case letters, digits and hyphens. Which version it is, is found when the script is signed and stands in the signed header."},

	{codeUnresolved, SeverityError, "an unknown name",
		"Nothing of this name is defined before this place. Modules need `name := import(\"name\")`; a function can be used only below its definition."},
	{codeRedeclared, SeverityError, "a name is defined twice",
		"`:=` makes a new variable; the name is taken in this block. To change the variable, use `=`."},
	{codeBuiltinName, SeverityError, "the name of a builtin function",
		"Names of builtin functions (len, copy, append, string, time, …) cannot be given to variables."},
	{codeUnknownModule, SeverityError, "an unknown module",
		"There is no module of this name, neither built in nor beside the script."},
	{codeImportCycle, SeverityError, "modules import each other",
		"A module is carried out where it is imported, so it cannot import itself, not even through others."},
	{codeReservedModule, SeverityError, "the name of a built-in module",
		"A module of your own has the name of one that is built in. Give it another name."},
	{codeMisplaced, SeverityError, "a statement in the wrong place",
		"`return` belongs into a function, `break` and `continue` into a loop of the same function, `export` to the top level of a module. There are no labels."},
	{codeAssignment, SeverityError, "this cannot be assigned",
		"The left side of an assignment is one variable, or an element of one: `x = 1`, `m.key = 1`, `a[0] = 1`; `:=` takes a name only."},
	{codeExportIgnored, SeverityWarning, "export does nothing here",
		"Only modules export. Use `run.output({…})` to hand out results of a script."},

	{codeParamsLiteral, SeverityError, "params is not a literal",
		"Parameters are read without running the script, so `params := {…}` must be written out: strings, numbers, true, false, lists and maps of these, once, at the top level, and never assigned again."},
	{codeParamSchema, SeverityError, "a parameter is not declared properly",
		"A parameter is a map with the keys type (\"string\", \"bool\", \"int\" or \"list\"), of (what a list holds), default, min, max, enum, pattern and help."},
	{codeParamDefault, SeverityError, "a default does not fit its parameter",
		"The default must itself be a value that the parameter takes."},
	{codeUnknownParam, SeverityError, "an unknown parameter",
		"The script reads a parameter that `params` does not declare."},
	{codeParamsRead, SeverityWarning, "the declaration is read instead of the values",
		"`params` is the declaration. The values of this run are in `run.params`."},

	{codeUnusedResult, SeverityWarning, "the result is not used",
		"The expression changes nothing, so without its result it does nothing. `append` in particular returns the longer list and leaves the old one alone: `list = append(list, x)`."},
	{codeUnusedVariable, SeverityWarning, "a variable is never read",
		"Nothing reads the variable. Often a handle was meant to be passed on and is not, so that a dependency is missing. Leave the name out, or let it begin with an underscore if it is only there to be read by people."},
	{codeUnusedImport, SeverityWarning, "a module is imported and not used",
		"Remove the import. Modules of your own are not reported, because their bodies are carried out where they are imported."},
	{codeUnusedParam, SeverityWarning, "a parameter is never read",
		"The script declares the parameter, and neither it nor its modules read it: whoever gives it a value will wonder. Read it as `run.params.name`, or remove its declaration."},
	{codeMissingKey, SeverityWarning, "a map has no such key",
		"The map is written out, nothing is added to it, and it does not have the key. Reading it gives `undefined`, which counts as not given wherever it is passed on."},
	{codeNeverEqual, SeverityWarning, "a comparison that never changes",
		"A handle is equal to itself and to nothing else: not to the name of its resource, and not to `undefined`. Compare one of its fields: `h.name`, `h.err`, `h.err.code`. The field `err` is `undefined` or a map, so compare its code or its message."},
	{codeAlwaysTrue, SeverityWarning, "a handle is always true",
		"A call returns a handle at once, whatever becomes of the call, so as a condition it is always true. `h.err` waits for the result and is `undefined` if the call succeeded."},
	{codeHiddenImport, SeverityWarning, "a name hides an imported module",
		"Inside of this block the module cannot be used any more. Choose another name."},
	{codeUnreachable, SeverityWarning, "this is never carried out",
		"`return`, `break`, `continue` and `run.fail` leave the block, so nothing after them in the same block happens."},
	{codeLateVariable, SeverityWarning, "a function keeps a variable that goes on changing",
		"All rounds of a loop at the top level share its variables, and those of `for i := …` are shared everywhere. A function that is kept and called later sees the value of the last round. Make it inside of another function that takes the value: `func(i) { return func() { … } }(i)`."},
	{codeSameEachRound, SeverityWarning, "the same resource in each round",
		"`create` means \"make it so\": with the same name in each round of a loop there is one resource, not many, and later rounds fail or change it. Make the name out of the loop's variable: `\"web-\" + i`."},
}

// LookupCode finds a row of Codes.
func LookupCode(code string) (CodeInfo, bool) {
	i := slices.IndexFunc(Codes, func(c CodeInfo) bool { return c.Code == code })
	if i < 0 {
		return CodeInfo{}, false
	}
	return Codes[i], true
}
