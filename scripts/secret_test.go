package scripts_test

import (
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
	} {
		o := passed(t, withSecret(), `s := run.secret("db-password"); x := `+misuse)
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
