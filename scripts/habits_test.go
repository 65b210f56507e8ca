package scripts_test

import (
	"fmt"
	"strings"
	"testing"

	"writ/scripts/check"
	"writ/scripts/diagnostic"
	"writ/scripts/interpreter"
)

// firstFinding returns "line:column message: help" of the first error of a source, and the number of errors.
func firstFinding(text string) (finding string, errors int) {
	r := check.Check(bundleOf(text))
	for _, d := range r.Diagnostics {
		if d.Severity == diagnostic.SeverityError {
			return fmt.Sprintf("%d:%d %s: %s", d.Line, d.Column, d.Message, d.Help), r.Errors()
		}
	}
	return "", 0
}

func TestHabitsOfOtherLanguagesAreExplained(t *testing.T) {
	for text, want := range map[string][2]string{ // position, and a part of the message and help
		"x = 5":                                 {"1:1", "a new variable is made with x := …"},
		"count := 1\nr := func() { cuont = 5 }": {"2:15", "cuont := …; did you mean \"count\"?"},
		"let x = 5":                             {"1:1", "no statement begins with \"let\": a new variable is made with name := value"},
		"int x = 5":                             {"1:1", "name := value"},
		"print(\"a\")":                          {"1:1", "run.log(…)"},
		"fmt.println(\"a\")":                    {"1:1", "run.log(…)"},
		"console.log(\"a\")":                    {"1:1", "run.log(…)"},
		"fmt := import(\"fmt\")":                {"1:8", "run.log(…)"},
		"x := null":                             {"1:6", "undefined"},
		"x := [1, nil]":                         {"1:10", "undefined"},
		"x := None":                             {"1:6", "undefined"},
		"x := True":                             {"1:6", "write true"},
		"for x in [1, 2]:\n\ty := x":            {"1:16", "in braces"},
		"if true:\n\ty := 1":                    {"1:8", "in braces"},
		"if true {\n} elif false {\n}":          {"2:3", "else if"},
		"if true {\n}\nelse {\n}":               {"3:1", "the line of the }"},
		"if true\n{\n}":                         {"1:8", "same line"},
		"x := 1\nif x = 1 {\n}":                 {"2:6", "== compares"},
		"x := 1\nif x === 1 {\n}":               {"2:6", "== compares"},
		"x := 1\nif x !== 1 {\n}":               {"2:6", "!= compares"},
		"x := 1\ny := x <> 1":                   {"2:8", "!= compares"},
		"x := 1\ny := x =< 1":                   {"2:8", "<="},
		"x := true\nif x and x {\n}":            {"2:6", "and is not an operator: write &&"},
		"x := true\nif x or x {\n}":             {"2:6", "write ||"},
		"x := true\nif not x {\n}":              {"2:4", "write !"},
		"x := 'hello'":                          {"1:6", "double quotes"},
		"x := “hello”":                          {"1:6", "double quotes"},
		"import \"machine\"":                    {"1:1", "name := import(\"name\")"},
		"from machine import create":            {"1:1", "name := import(\"name\")"},
		"x := 5\ny := f\"a {x}\"":               {"2:6", "format("},
		"# a comment\nx := 5":                   {"1:1", "begins with //"},
		"-- a comment\nx := 5":                  {"1:1", "begins with //"},
		"x := 1\ny := x ?? 2":                   {"2:8", "is_undefined"},
		"x := (a) => a":                         {"1:10", "func(a)"},
		"x := [y for y in [1]]":                 {"1:9", "in a loop"},
		"y := 1\nx := y if y else 2":            {"2:8", "condition ? a : b"},
		"x := if true { 1 } else { 2 }":         {"1:6", "condition ? a : b"},
		"f := func() {\n\treturn 1, 2\n}":       {"2:2", "one value"},
		"x := {timeout: 5m}":                    {"1:16", "5m is not a value: a duration is a text"},
		"x := {memory: 2GiB}":                   {"1:15", "2GiB is not a value: sizes are whole numbers"},
		"x := \"a\" \"b\"":                      {"1:6", "joined with +"},
		"x := \"a\" .. \"b\"":                   {"1:10", "joined with +"},
		"a := 1\na &&= 2":                       {"2:3", "a = a && b"},
		"for x of [1, 2] {\n}":                  {"1:7", "for x in list"},
		"for (x of [1, 2]) {\n}":                {"1:8", "for x in list"},
		"for k, v := range {a: 1} {\n}":         {"1:13", "for x in list"},
		"for (let i = 0; i < 3; i++) {\n}":      {"1:5", "no parentheses"},
		"for i in 0..3 {\n}":                    {"1:12", "range(0, 3)"},
		"return 5":                              {"1:1", "run.output("},
		"break":                                 {"1:1", "a for loop"},
		"x := not true":                         {"1:6", "write !"},
		"x := {a: 1 b: 2}":                      {"1:12", "a comma is missing before b"},
		"x := {a: 1\n\tb: 2}":                   {"2:2", "a comma is missing before b"},
		"len(1 2)":                              {"1:7", "a comma is missing before 2"},
		"x := {a = 1}":                          {"1:9", "name: value"},
		"x := {b-c: 3}":                         {"1:8", "needs quotes"},
		"x := \"abc":                            {"1:6", "on its line"},
		"x := \"a\nb\"":                         {"1:6", "in backquotes"},
		"f := lambda x: x":                      {"1:6", "func(a, b)"},
		"f := fn(x) {\n}":                       {"1:6", "func(a, b)"},
		"f := func(x, y=2) {\n}":                {"1:15", "no default values"},
		"f := func(x: int) {\n}":                {"1:12", "no types"},
		"class A {\n}":                          {"1:1", "types are not declared"},
		"x := await y":                          {"1:6", "at the same time anyway"},
		"x := [...[1]]":                         {"1:7", "joined with +"},
		"i := 1\nx := i++":                      {"2:7", "a statement of its own"},
		"i := 1\n++i":                           {"2:1", "name first"},
		"name: 5":                               {"1:1", "name := value"},
		"a := 1\na = a = 5":                     {"2:7", "assigns once"},
		"x := (1, 2)":                           {"1:8", "[a, b]"},
		"x := 1 – 2":                            {"1:8", "write -"},
		"x := 1\u00a0+ 2":                       {"1:7", "a plain space"},
		"@once\nx := 5":                         {"1:1", "no decorators"},
		"x := true?":                            {"1:10", "condition ? a : b"},
		"x :=":                                  {"1:5", "a value is missing"},
		"if 1 in [1] {\n}":                      {"1:6", "belongs to loops"},
		"if (1 == 1) x := 2":                    {"1:1", "in braces"},
		"import(run)":                           {"1:1", "import(\"name\")"},
		"x := import(\"./none\")":               {"1:6", "files beside the script"},
		"f := func() { return 1 }\n.f()":        {"2:1", "the line before"},
		"sleep(5)":                              {"1:1", "do not sleep"},
		"exec(\"ls\")":                          {"1:1", "container.exec"},
		"y(1)":                                  {"1:1", "name := value"},
		"type := 1 2":                           {"1:11", "before 2 an operator"},
		"c := import(\"container\")\nc.create(\"a\", {image: \"b\", depends_on: [\"db\"]})": {"2:28", "pass the handle"},
		"x := 1\r\ny := 2\r\n": {"1:7", "writ fmt -w"},
	} {
		got, n := firstFinding(text)
		if !strings.HasPrefix(got, want[0]+" ") || !strings.Contains(got, want[1]) || n != 1+strings.Count(text, "\r\ny") {
			t.Errorf("%q: %d errors, the first: %s\nwant one at %s with %q", text, n, got, want[0], want[1])
		}
	}
}

func TestUnclosedBracketIsReportedAtItsStart(t *testing.T) {
	const m = "m := import(\"machine\")\n"
	for text, want := range map[string]string{
		m + "if true {\n\tm.start(\"a\")\n\nm.stop(\"a\")\n":                                        "2:9 this { is never closed: add the } that belongs to it",
		m + "x := [1, 2\nm.stop(\"a\")\n":                                                           "2:6 this [ is never closed: the ] is expected before line 3, column 1",
		m + "m.create(\"web\", {\n\tcpus: 2,\n\tmemory_mib: 2048\nm.stop(\"a\")\n":                  "2:17 this { is never closed: the } is expected before line 5, column 1",
		m + "m.create(\"web\", {cpus: 2, memory_mib: 64)\n":                                         "2:17 this { is never closed: add the } that belongs to it",
		m + "m.create(\"web\", {cpus: 2, memory_mib: 64}\nm.stop(\"a\")\n":                          "2:9 this ( is never closed: the ) is expected before line 3, column 1",
		m + "f := func() {\n\tif true {\n\t\tm.start(\"a\")\n\n\tm.stop(\"a\")\n}\nm.stop(\"b\")\n": "3:10 this { is never closed: add the } that belongs to it",
		m + "m.stop(\"b\")\n}\n":                                                                    "3:1 this } has no opening bracket: remove it, or add the bracket that it closes",
	} {
		if got, n := firstFinding(text); got != want || n != 1 {
			t.Errorf("%s%d errors, the first: %s\nwant one: %s", text, n, got, want)
		}
	}
}

func TestCommaAfterTheLastElementIsAccepted(t *testing.T) {
	for text, formatted := range map[string]string{
		"len([1, 2,])":                                                 "len([1, 2])\n",
		"len([\n\t1, // one\n\t2, // two\n])":                          "len([\n\t1, // one\n\t2  // two\n])\n",
		"x := {\n\ta: 1,\n\tb: {c: 2,},\n}\nlen(x,)":                   "x := {\n\ta: 1,\n\tb: {c: 2}\n}\nlen(x)\n",
		"f := func(a, b,) { return {a: a, b: b,} }\nf(\n\t1,\n\t2,\n)": "f := func(a, b) { return {a: a, b: b} }\nf(\n\t1,\n\t2\n)\n",
		"for x in [1, 2,] {\n\tlen([x,])\n}":                           "for x in [1, 2] {\n\tlen([x])\n}\n",
	} {
		if got, n := firstFinding(text); n > 0 {
			t.Errorf("%q: %s", text, got)
		}
		if _, err := interpreter.Compile(bundleOf(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if got, err := reformat(text); err != nil || got != formatted {
			t.Errorf("%q is formatted as %q, %v; want %q", text, got, err, formatted)
		}
	}
}

func TestMembersOfOtherLanguagesAreExplained(t *testing.T) {
	const run = "run := import(\"run\")\nparams := {s: {type: \"string\"}, l: {type: \"list\", of: \"int\"}, n: {type: \"int\"}, b: {type: \"bool\"}}\nrun.log(run.params)\n"
	for text, want := range map[string]string{
		"l := []\nl.push(1)": "5:3 a list has no \"push\": write l = append(l, 1)",
		"l := []\nl = append(l, 1)\nl += [2]\nrun.log(l.len())":    "7:11 a list has no \"len\": write len(l)",
		"l := [1]\nrun.log(l.length)":                              "5:11 a list has no \"length\": write len(l)",
		"l := [1]\nrun.log(l[\"first\"])":                          "5:11 a list has no \"first\": write l[0]",
		"l := [1]\nl.map(func(x) { return x })":                    "5:3 a list has no \"map\": write a loop: for x in l { … }",
		"l := [1]\nl.frobnicate()":                                 "5:3 a list has no \"frobnicate\": a list has elements only: l[0], len(l)",
		"s := \"a\"\ns += \"b\"\nrun.log(s.to_upper())":            "6:11 a text has no \"to_upper\": write text.to_upper(s), with text := import(\"text\") above",
		"run.log(\"a,b\".split(\",\"))":                            "4:15 a text has no \"split\": write text.split(\"a,b\", \",\"), with text := import(\"text\") above",
		"run.log(\", \".join(run.params.l))":                       "4:14 a text has no \"join\": write text.join(run.params.l, \", \"), with text := import(\"text\") above",
		"run.log(run.params.s.length)":                             "4:22 a text has no \"length\": write len(run.params.s)",
		"run.log(run.params.l.size())":                             "4:22 a list has no \"size\": write len(run.params.l)",
		"n := 1\nn++\nrun.log(n.to_string())":                      "6:11 a number has no \"to_string\": write string(n)",
		"run.log(\"%d\" % 1)":                                      "4:9 a text has no operator %: write format(\"%d\", 1)",
		"run.log(\"-\" * 8)":                                       "4:9 a text has no operator *: write text.repeat(\"-\", 8), with text := import(\"text\") above",
		"run.log(run.params.s - \"a\")":                            "4:9 a text has no operator -: ",
		"l := undefined\nl = []\nrun.log(l.push(1))":               "",
		"l := []\nl = {}\nrun.log(l.push)":                         "",
		"f := func(l) { return l.push(1) }\nrun.log(f({}))":        "",
		"a := \"x\"\nb := a\na = b\nb = {c: 1}\nrun.log(a.c, b.c)": "",
		"m := {len: 1}\nrun.log(m.len, run.params.n % 2)":          "",
		"for l in [[1], {}] { run.log(l.len) }":                    "",
	} {
		if got, _ := firstFinding(run + text); got != want {
			t.Errorf("%s\n%s\nwant %s", text, got, want)
		}
	}
}
