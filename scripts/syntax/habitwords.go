package syntax

import "strings"

// The equivalents of constructs of other languages, as parts of hints.
const (
	insteadOfVariable = "a new variable is made with name := value"
	insteadOfFunction = "a function is a value: name := func(a, b) { … }"
	insteadOfChoice   = "choices are written if … { … } else if … { … }"
	insteadOfFailure  = "the field err of a handle holds its error; run.fail(\"why\") ends the run"
	insteadOfImport   = "a module is imported with name := import(\"name\")"
	insteadOfPrint    = "write run.log(…), with run := import(\"run\") above"
	insteadOfComment  = "a comment begins with //"
	insteadOfText     = "a text is in double quotes: \"…\""
	insteadOfColon    = "a block is in braces: … { … }"
	insteadOfDefault  = "write is_undefined(a) ? b : a"
	insteadOfTernary  = "a choice of two values is written condition ? a : b"
	insteadOfType     = "types are not declared: a map has the fields, {name: value}"
	insteadOfAwait    = "calls run at the same time anyway; reading a field of a handle waits for its call"
	insteadOfDelete   = "delete(map, \"key\") removes an element; the value undefined counts as missing"
	insteadOfRange    = "a loop over numbers is written for i in range(0, 3) { … }"
	insteadOfExec     = "scripts run no programs: container.exec(\"name\", {…}) runs one in a container"
	insteadOfFile     = "scripts read no files: give the text as a parameter"
	insteadOfNetwork  = "scripts have no network: they use operations and parameters only"
	insteadOfSleep    = "scripts do not sleep: reading a field of a handle waits for its call"
	insteadOfTime     = "write run.now(), with run := import(\"run\") above"
	insteadOfEmpty    = "an empty block is written { }"
	insteadOfParams   = "declare parameters as params := {name: {type: \"int\"}}, and read them as run.params.name"
)

// otherLanguages maps words that begin statements in other languages to hints.
var otherLanguages = map[string]string{
	"let": insteadOfVariable, "var": insteadOfVariable, "const": insteadOfVariable, "local": insteadOfVariable,
	"auto": insteadOfVariable, "global": insteadOfVariable, "my": insteadOfVariable, "val": insteadOfVariable,
	"int": insteadOfVariable, "string": insteadOfVariable, "bool": insteadOfVariable, "float": insteadOfVariable,
	"fn": insteadOfFunction, "def": insteadOfFunction, "function": insteadOfFunction, "func": insteadOfFunction,
	"fun": insteadOfFunction, "sub": insteadOfFunction, "lambda": insteadOfFunction,
	"class": insteadOfType, "struct": insteadOfType, "enum": insteadOfType, "type": insteadOfType,
	"interface": insteadOfType,
	"while":     "a loop with a condition is written for condition { … }",
	"until":     "a loop with a condition is written for !condition { … }",
	"foreach":   "a loop over a list is written for x in list { … }",
	"loop":      "a loop without an end is written for { … }",
	"elif":      insteadOfChoice, "elsif": insteadOfChoice, "elseif": insteadOfChoice, "switch": insteadOfChoice,
	"match": insteadOfChoice,
	"case":  insteadOfChoice, "unless": "write if !(…) { … }",
	"try": insteadOfFailure, "catch": insteadOfFailure, "throw": insteadOfFailure, "raise": insteadOfFailure,
	"except": insteadOfFailure,
	"from":   insteadOfImport, "import": insteadOfImport, "use": insteadOfImport, "include": insteadOfImport,
	"require": insteadOfImport, "using": insteadOfImport,
	"package": "scripts have no package line: remove it",
	"async":   insteadOfAwait, "await": insteadOfAwait, "go": insteadOfAwait, "spawn": insteadOfAwait,
	"delete": insteadOfDelete, "del": insteadOfDelete, "unset": insteadOfDelete,
	"export": "a module exports one value: export {name: value}",
	"defer":  "defer does not exist: write the statement where it belongs",
	"goto":   "goto does not exist: use if, for and functions",
	"begin":  insteadOfColon, "with": "with does not exist: write name := value and use the name",
	"typeof": "write type_name(value)",
	"print":  insteadOfPrint, "echo": insteadOfPrint, "puts": insteadOfPrint,
	"end": "a block ends with }", "fi": "a block ends with }", "done": "a block ends with }",
	"then": insteadOfColon, "do": insteadOfColon,
	"resource": "a resource is created by a call: machine.create(\"web\", {…})",
	"variable": "parameters are declared as params := {name: {type: \"int\"}}",
	"output":   "the outputs of a run are set with run.output({…})",
}

// foreignNames maps names of other languages to hints.
var foreignNames = map[string]string{
	"print": insteadOfPrint, "println": insteadOfPrint, "printf": insteadOfPrint, "echo": insteadOfPrint,
	"puts": insteadOfPrint,
	"fmt":  insteadOfPrint, "console": insteadOfPrint, "log": insteadOfPrint, "logger": insteadOfPrint,
	"logging": insteadOfPrint,
	"null":    "write undefined", "nil": "write undefined", "none": "write undefined", "NULL": "write undefined",
	"true": "write true", "false": "write false", "yes": "write true", "no": "write false",
	"and": "write &&", "or": "write ||", "not": "write !", "is": "write ==",
	"str": "write string(…)", "tostring": "write string(…)", "String": "write string(…)", "parseint": "write int(…)",
	"Number":  "write int(…)",
	"sprintf": "write format(…)", "isinstance": "write type_name(…)", "typeof": "write type_name(…)",
	"type":    "write type_name(…)",
	"require": insteadOfImport, "exit": "run.fail(\"why\") ends the run", "panic": "run.fail(\"why\") ends the run",
	"throw": insteadOfFailure, "raise": insteadOfFailure, "assert": "write if !(…) { run.fail(\"why\") }",
	"argv": insteadOfParams, "args": insteadOfParams, "env": insteadOfParams, "process": insteadOfParams,
	"os": insteadOfParams, "sys": insteadOfParams,
	"end": "a block ends with }", "begin": insteadOfColon,
	"pass": insteadOfEmpty, "this": "a function reads the variables around it",
	"self": "a function reads the variables around it", "sleep": insteadOfSleep, "wait": insteadOfSleep,
	"settimeout": insteadOfSleep, "exec": insteadOfExec, "system": insteadOfExec, "shell": insteadOfExec,
	"subprocess": insteadOfExec, "open": insteadOfFile, "readfile": insteadOfFile, "read_file": insteadOfFile,
	"file": insteadOfFile, "input": insteadOfParams, "getenv": insteadOfParams, "fetch": insteadOfNetwork,
	"curl": insteadOfNetwork, "http": insteadOfNetwork, "requests": insteadOfNetwork, "now": insteadOfTime,
	"date": insteadOfTime,
}

// foreignName returns the hint for a name of another language, or "".
func foreignName(name string) string {
	if help := foreignNames[name]; help != "" {
		return help
	}
	return foreignNames[strings.ToLower(name)]
}

// foreignModules maps modules of other languages to hints.
var foreignModules = map[string]string{
	"fmt": insteadOfPrint, "log": insteadOfPrint, "os": "scripts do not see the host: " + insteadOfParams,
	"sys":     insteadOfParams,
	"http":    insteadOfNetwork,
	"net":     insteadOfNetwork,
	"strings": "did you mean \"text\"?", "time": "did you mean \"times\"?",
}
