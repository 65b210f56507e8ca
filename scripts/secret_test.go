package scripts_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/scripts"
	"writ/scripts/check"
	"writ/scripts/interpreter"
)

// withSecret returns the inputs of a run that may use a secret.
func withSecret() scripts.Inputs {
	in := everything()
	in.Secrets = []string{"db-password@3", "db@1"}
	return in
}

func passed(t *testing.T, in scripts.Inputs, text string) scripts.Outcome {
	t.Helper()
	o, err := compile(t, bundleOf(imports+text)).Pass(t.Context(), in, nil)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestSecretIsEncodedByName(t *testing.T) {
	const text = `
secret := run.secret("db-password")
herodb.create("store", {memory_mib: 64, password: secret})
container.create("web", {image: "web", env: {PASSWORD: secret, DB: run.secret("d" + "b"), MODE: "fast"}})
run.log("with", secret, [secret], type_name(secret))
`
	o := passed(t, withSecret(), text)
	if o.Status != scripts.Completed {
		t.Fatalf("%+v", o.Failure)
	}
	named := func(ref string) map[string]any { return map[string]any{"secret": ref} }
	want := []map[string]any{
		{"memory_mib": int64(64), "size_gib": int64(1), "password": named("db-password@3")},
		{"image": "web", "cpus": int64(1), "memory_mib": int64(512), "restart": "always",
			"env": map[string]any{"PASSWORD": named("db-password@3"), "DB": named("db@1"), "MODE": "fast"}},
	}
	for i, c := range o.Calls {
		if diff := cmp.Diff(want[i], c.Args); diff != "" {
			t.Errorf("%s: %s", c.Operation, diff)
		}
	}
	if diff := cmp.Diff([]string{"with <secret db-password> [<secret db-password>] secret"}, o.Logs); diff != "" {
		t.Error(diff)
	}

	later := withSecret()
	later.Secrets[0] = "db-password@4"
	if again := passed(t, later, text); again.Calls[0].Hash == o.Calls[0].Hash {
		t.Error("another version of the secret is the same call")
	}
}

// Promise: Secrets: A text with secrets in it, of `run.text`, is a secret: the script and the datacenter have only names.
// How: The call has the parts of the text, with the names of secrets; the driver joins them.
// Also: TestOnlyRevealShowsAComposedText, TestLogMasksSecretsOfTexts.
func TestTextWithSecretsIsASecret(t *testing.T) {
	o := passed(t, withSecret(), `
s := run.secret("db-password")
user := run.text("{who}:", {who: "app"})
inner := run.text("{user}{s}@{host}:{port}", {user: user, s: s, host: "db.internal", port: 5432})
whole := run.text("{{\"url\": \"postgres://{inner}/{db}\"}}", {inner: inner, db: run.secret("db")})
container.create("web", {image: "web", env: {URL: whole, ALONE: run.text("{s}", {s: s}), PLAIN: run.text("{a}{a}-{{}}", {a: 1})}})
run.log(whole, type_name(whole), type_name(user), user)
`)
	if o.Status != scripts.Completed {
		t.Fatalf("%+v", o.Failure)
	}
	want := map[string]any{
		"URL": map[string]any{"parts": []any{
			`{"url": "postgres://app:`, map[string]any{"secret": "db-password@3"}, "@db.internal:5432/", map[string]any{"secret": "db@1"}, `"}`,
		}},
		"ALONE": map[string]any{"secret": "db-password@3"},
		"PLAIN": "11-{}",
	}
	if diff := cmp.Diff(want, o.Calls[0].Args["env"]); diff != "" {
		t.Error(diff)
	}
	log := `{"url": "postgres://app:<secret db-password>@db.internal:5432/<secret db>"} secret string app:`
	if diff := cmp.Diff([]string{log}, o.Logs); diff != "" {
		t.Error(diff)
	}
}

func TestTemplateErrorsAreNamed(t *testing.T) {
	for call, want := range map[string]string{
		`run.text("{a}", {})`:                                     "no value for {a}",
		`run.text("{a}", {a: undefined})`:                         "no value for {a}",
		`run.text("a", {a: 1})`:                                   "has no {a}",
		`run.text("{a", {a: 1})`:                                  "{name} for a value and {{ for the character {",
		`run.text("a}", {})`:                                      "}} for the character }",
		`run.text("{a b}", {"a b": 1})`:                           "{name} for a value",
		`run.text("{a}", {a: 1.5})`:                               "is a float",
		`run.text("{a}", {a: [s]})`:                               "is a array",
		`run.text("{a}", {a: volume.create("v", {size_gib: 1})})`: "a handle; read one of its fields",
		`run.text(s, {})`:                                         "a template first, not a secret",
		`run.text("a", s)`:                                        "a map second, not a secret",
		`run.text("a")`:                                           "",
		`func() { t := "{s}"; for i := 0; i < 8; i++ { t += t }; return run.text(t, {s: s}) }()`: "200 parts",
	} {
		o := passed(t, withSecret(), `s := run.secret("db-password"); x := `+call)
		if o.Status != scripts.Failed || !strings.Contains(o.Failure.Message, want) || o.Failure.Position == "" {
			t.Errorf("%s: %s %+v, want %q", call, o.Status, o.Failure, want)
		}
	}
}

// A text is unknown in a plan until its values are known.
func TestPlanShowsTextWithSecrets(t *testing.T) {
	plan, err := interpreter.PlanOf(t.Context(), bundleOf(imports+`
store := herodb.create("store", {memory_mib: 64, password: run.secret("db-password")})
container.create("web", {image: "web", env: {
	DB: run.text("redis://:{s}@{at}", {s: run.secret("db-password"), at: store.address}),
	KNOWN: run.text("redis://:{s}@x", {s: run.secret("db-password")})
}})
`), withSecret())
	if err != nil || plan.Failure != nil {
		t.Fatal(err)
	}
	shown := plan.Describe(plan.Calls[1].Args)
	for _, want := range []string{"DB: (known after herodb store)", `KNOWN: "redis://:" + <secret db-password@3> + "@x"`} {
		if !strings.Contains(shown, want) {
			t.Errorf("%s is not in %s", want, shown)
		}
	}
}

func TestSecretIsOnlyAnArgument(t *testing.T) {
	for _, misuse := range []string{
		`s + "x"`, `"x" + s`, `"x" + [s]`, `s < "x"`,
		`s.value`, `s[0]`, `s()`, `string(s)`, `string({a: [s]})`, `format("%s", s)`, `format("%v", [s])`, `string(error(s))`, `len(s)`,
		`import("json").encode({a: s})`, `import("base64").encode(s)`, `import("hex").encode(s)`, `import("text").to_upper(s)`,
		`import("text").join([s], ",")`, `import("text").replace("abc", "b", s, 1)`, `import("text").re_match("a", s)`,
		`run.output({v: s})`, `run.output({v: [{a: s}]})`, `run.output(s)`,
		`volume.get(s)`, `volume.create("a", s)`, `volume.create("a", {size_gib: s})`, `volume.create("a", {size_gib: 1}, {node: s})`,
		`volume.create("a", {size_gib: 1}, {labels: {a: s}})`, `container.exec("a", {command: ["x", s]})`, `container.create("a", {image: s})`,
		`container.create("a", {image: "b", env: s})`, `container.create("a", {image: "b", env: {A: {secret: "db-password@3"}}})`,
		`herodb.create("a", {memory_mib: 64, password: "in the open"})`, `run.secret(s)`,
		`"x" + c`, `c == c ? c[0] : c[0]`, `string(c)`, `import("json").encode(c)`, `run.output({v: c})`, `volume.get(c)`, `len(c)`,
		`container.create("a", {image: "b", env: {A: {parts: ["x", {secret: "db-password@3"}]}}})`, `container.exec("a", {command: ["x", c]})`,
	} {
		o := passed(t, withSecret(), `s := run.secret("db-password"); c := run.text("a{s}", {s: s}); x := `+misuse)
		if o.Status != scripts.Failed || len(o.Calls) > 0 || o.Failure.Position == "" {
			t.Errorf("%s: %s, %d calls, %+v", misuse, o.Status, len(o.Calls), o.Failure)
		}
	}
}

func TestSecretEqualsNoValue(t *testing.T) {
	o := passed(t, withSecret(), `s := run.secret("db-password"); e := "db-password@3"
run.output({v: [s == s, s == "x", "x" == s, s == e, e == s, [s] == [s], {a: s} == {a: s}, s == copy(s), s == undefined]})`)
	if o.Status != scripts.Completed {
		t.Fatalf("%+v", o.Failure)
	}
	for i, v := range o.Output["v"].([]any) {
		if v != false {
			t.Errorf("comparison %d: %v", i, v)
		}
	}
}

func TestUnsignedSecretIsUnknown(t *testing.T) {
	for _, name := range []string{"db-passwor", "db-password@3", "api-key", "", "db@1"} {
		o := passed(t, withSecret(), `x := run.secret("`+name+`")`)
		if o.Status != scripts.Failed || o.Failure.Code != writ.CodeSecretUnknown || o.Failure.Position != "test.tengo:4:6" {
			t.Errorf("%q: %+v", name, o.Failure)
		}
	}
}

func TestCheckNamesTheSecretsOfAScript(t *testing.T) {
	r := check.Check(bundleOf(imports + `
a := run.secret("b"); x := func(n) { return run.secret(n) }
herodb.create("store", {memory_mib: 64, password: run["secret"]("a")})
machine.create("m", {cpus: 1, memory_mib: 64, env: {A: a, B: x("c")}, cloud_init: run.secret("b")})
run.log(a)
`))
	if !r.OK() {
		t.Errorf("%s", r)
	}
	if diff := cmp.Diff([]string{"a", "b"}, r.Secrets); diff != "" {
		t.Error(diff)
	}
}

func TestPlanHasSecretsByName(t *testing.T) {
	const text = imports + `
store := herodb.create("store", {memory_mib: 64, password: run.secret("db-password")})
container.create("web", {image: "web", env: {DB: store.address, PASSWORD: run.secret("db-password")}})
run.log("with", run.secret("db"))
`
	plan, err := interpreter.PlanOf(t.Context(), bundleOf(text), withSecret())
	if err != nil || plan.Failure != nil || plan.Horizon != nil {
		t.Fatalf("%v %+v", err, plan)
	}
	want := map[string]any{"secret": "db-password@3"}
	env, _ := plan.Calls[1].Args["env"].(map[string]any)
	if diff := cmp.Diff([]any{want, want}, []any{plan.Calls[0].Args["password"], env["PASSWORD"]}); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"with <secret db>"}, plan.Logs); diff != "" {
		t.Error(diff)
	}
	later := withSecret()
	later.Secrets[0] = "db-password@4"
	if again, err := interpreter.PlanOf(t.Context(), bundleOf(text), later); err != nil || again.Digest == plan.Digest {
		t.Errorf("with another version of the secret it is the same plan (%v)", err)
	}
}
