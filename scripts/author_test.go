package scripts_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"

	"writ/scripts"
)

// grammar generates random scripts: it maps each symbol to its possible texts, which may contain other symbols. At the
// maximum depth only texts without symbols are chosen, so each symbol has one. <new> is an unused name. All whole
// numbers stay positive, so that few scripts fail before they have done anything.
var grammar = map[string][]string{
	"script": {
		"<head>\n<part>\n<part>\n<part>\n<part>\n<tail>",
		"<head>\n<part>\n<part>\n<part>\n<part>\n<part>\n<part>\n<part>\n<part>\n<tail>",
	},
	"head": {`image := import("image"); volume := import("volume"); machine := import("machine"); herodb := import("herodb")
node := import("node"); run := import("run"); json := import("json"); text := import("text"); enum := import("enum")
times := import("times"); math := import("math"); hex := import("hex"); base64 := import("base64"); tools := import("tools")
n := 1; s := "s"; l := [3, 1, 2]; m := {zone: "z", a: "1", k9: ""}; f := func(x) { return x + 1 }
first := volume.create("first", {size_gib: 4}); hs := [first]; hm := {b: first, a: first}`},
	"tail": {`run.log(n, s, l, m, hs, hm); run.output({n: n, s: s, l: l, m: m, at: string(run.now())})`},
	"part": {
		"<do>", "<do>", "<do>", "<do>",
		"for <new> := 0; <new> < 2; <new>++ {\n<do>\n<do>\n}",
		"for k, v in (<map>) {\nn += len(k); s = v; node.ping({}, {labels: {k: k, v: len(v) < 60 ? v : \"long\"}})\n<do>\n}",
		"for k, h in hm {\nrun.log(k, h)\nif len(hs) < 9 { hs = append(hs, volume.create(\"k\" + len(k) + \"-\" + n, {size_gib: h.size_gib})) }\n<do>\n}",
		"for i, h in hs {\nif i > 3 { break }\nif h.err { continue }\nhm[\"h\" + i] = h\n<do>\n}",
		"if (<bool>) {\n<part>\n} else {\n<part>\n}",
		"f = func(x) {\n<do>\nreturn x + <int> % 9\n}\nn += f(<int>)",
		"func(a, ...more) {\nb := a + len(more)\nf = func(x) { b++; return b + x }\n<do>\n}(<int>, <list>...)",
		"enum.each(<map>, func(k, v) {\n<do>\n})",
		"<new> := <int> % 3; for <new> > 0 {\n<new>--\n<do>\n}",
		"n++",
	},
	"do": {
		"hs = append(hs, <handle>)", "hs = append(hs, <handle>)", `hm[<text>] = <handle>`, `delete(hm, "a")`,
		`machine.create(<name>, {cpus: 1 + <int> % 4, memory_mib: 64, disks: [<handle>], env: <map>})`,
		`machine.create(<name>, {cpus: 1, memory_mib: 64, env: {ZONE: <text>}}, {retries: <int> % 5, timeout: "" + (1 + <int> % 9) + "m"})`,
		`herodb.create(<name>, {memory_mib: 64 + <int> % 64})`, `node.ping()`, `volume.get("here")`,
		`if (<handle>).err { run.log(<text>) } else { n += <int> }`,
		`<new> := <handle>.err; run.log(<new> ? <new>.code + <new>.message : "well")`,
		`m["k" + <int> % 5] = <text>`, `m = <map>`, `l = <list>`, `s = <text>`, `n += <int> % 100`, `n = <int> % 1000`,
		`splice(l, 0, len(l) ? 1 : 0, <int>)`, `run.log(<map>, <list>, <text>, <int>)`, `run.output({seen: <int>, by: <text>})`,
		`run.log(string(json.encode({m: m, l: l, t: <bool>, s: <text>})))`, `run.log(format("%v %d %s %q", <map>, <int>, <text>, <text>))`,
		`n += f(<int>) % 50`, `n += tools.next()`, `hs = append(hs, tools.disk(<int>))`, `run.log(times.time_year(run.now()))`,
		`run.log(run.now() == run.now(), run.id, run.project)`, `if n > 900 { run.fail("enough: " + n) }`, `l[0] += <int>`, `n++`,
	},
	"name": {`"a" + <int>`, `"b" + n + "-x"`, `"c-" + text.to_lower(hex.encode(bytes(<text>)[0:1]))`, `"d-" + len(hs)`, `"fail-" + <int>`, `"e" + n`},
	"handle": {
		`volume.create(<name>, {size_gib: 1 + <int> % 50}, {labels: {zone: "z" + <int> % 3}})`, `volume.create(<name>, {size_gib: 2})`,
		`hs[<int> % len(hs)]`, `hm.b`, `tools.disk(<int>)`, `volume.create("v" + n, {size_gib: 1})`, "first",
	},
	"int": {
		"1", "2", "7", "n", "len(l)", "len(m)", "run.params.count", "(<int> + <int> % 99)", "(<int> % 7)", "(<int> * 3 % 100)", "int(string(<int>))",
		"<handle>.size_gib", "(<handle>.err ? 1 : 2)", `text.count(<text>, "a")`, "len(<list>)", "len(<text>)", "f(<int> % 9)", "tools.double(<int>)",
		"(<bool> ? <int> : <int>)", "int(math.sqrt(<int>))", "times.time_day(times.unix(<int>, 0))", "int(math.max(<int>, 3))",
		"json.decode(json.encode({a: [<int>]})).a[0]", "int('a')", "(<int> & 6 | 1)", "len(enum.filter(<list>, func(k, v) { return v > <int> }))",
	},
	"bool": {
		"true", "n % 2 == 0", "len(l) > 2", "<int> < <int>", "<text> == <text>", "<list> != l", "<map> == m", "!<bool>", "<bool> && <bool>", "<bool> || <bool>",
		`is_undefined(m[<text>])`, `text.contains(<text>, "1")`, "enum.any(<list>, func(k, v) { return v == <int> })", "first == <handle>", "is_string(<text>)",
		"<handle>.err == undefined", "is_error(json.decode(<text>))",
	},
	"text": {
		`"x"`, "s", `"zone"`, "m.a", `"a-" + <int>`, "string(<list>)", "string(<map>)[0:1]", `text.to_upper(<text>)`, `text.join(text.split(<text>, "-"), "+")`,
		`string(json.encode(<int>))`, "<handle>.name", "string(first)", `(<bool> ? <text> : <text>)`, `format("%03d", <int>)`, `string('a')`,
		`text.re_replace("[0-9]+", <text>, "#")`, `base64.encode(bytes(<text>))`, `times.time_format(times.unix(<int>, 0), times.format_rfc3339)`,
		"type_name(<list>)", `text.pad_left(<text>, 4, "0")`,
	},
	"list": {
		"l", "[]", "[1, 2, 3]", "[<int>, <int>]", "append(l, <int>)", "enum.map(<list>, func(k, v) { return v + k })", "range(0, <int> % 4)", "copy(l)",
		"l[:len(l) / 2]", "(l + <list>)[:3 < len(l) ? 3 : len(l)]", `json.decode("[4, 5]")`, "enum.key(<list>, l)",
	},
	"map": {
		"m", `{zone: "y"}`, "{a: <text>, b: <text>}", "copy(m)", `immutable({c: "1", a: <text>})`, `json.decode(json.encode({b: <text>, "a": <text>}))`,
		`{a: "x" + <int>, zz: "2", b: "3", k1: "", k2: "4", k3: "5", k4: "6", k5: "7", k6: "8", k7: "9"}`,
	},
}

// tools is a module that random scripts import. It has functions, state and calls of its own.
const tools = `volume := import("volume")
calls := 0
export {
	double: func(x) { return 2 * x },
	next: func() { calls++; return calls },
	disk: func(x) { calls++; return volume.create("disk-" + x + "-" + calls, {size_gib: 1 + x % 9}) }
}`

var symbolOf = regexp.MustCompile("<[a-z]+>")

// randomScript writes a script that compiles. Most of them also run.
func randomScript(chance *rand.Rand) scripts.Bundle {
	names := 0
	var write func(symbol string, depth int) string
	write = func(symbol string, depth int) string {
		choices := grammar[strings.Trim(symbol, "<>")]
		text := choices[chance.IntN(len(choices))]
		for depth > 6 && symbolOf.MatchString(text) {
			text = choices[chance.IntN(len(choices))]
		}
		if strings.Contains(text, "<new>") {
			names++
			text = strings.ReplaceAll(text, "<new>", fmt.Sprintf("x%d", names))
		}
		return symbolOf.ReplaceAllStringFunc(text, func(symbol string) string { return write(symbol, depth+1) })
	}
	return scripts.Bundle{
		Main:    scripts.Source{Name: "test.tengo", Text: []byte(write("<script>", 0))},
		Modules: []scripts.Source{{Name: "tools", Text: []byte(tools)}},
	}
}
