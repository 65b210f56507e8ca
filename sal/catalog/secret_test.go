package catalog

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
)

const canary = "correct horse battery"

// withSecrets returns arguments in the form of a job, and the values of their secrets.
func withSecrets() (args map[string]any, secrets map[Secret]string) {
	return map[string]any{
		"image": "web",
		"env":   map[string]any{"PASSWORD": map[string]any{"secret": "db-password@3"}, "MODE": "fast"},
	}, map[Secret]string{"db-password@3": canary}
}

func TestOnlyRevealShowsASecret(t *testing.T) {
	args, secrets := withSecrets()
	decoded, err := operation(t, "container.create").DecodeWith(args, secrets)
	if err != nil {
		t.Fatal(err)
	}
	c := decoded.(*ContainerCreate)
	if value, err := c.Env["PASSWORD"].Reveal(); value != canary || err != nil {
		t.Errorf("the driver gets %q, %v", value, err)
	}
	encoded, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	hidden := struct{ env map[string]Text }{c.Env} // fmt cannot call methods of unexported fields
	shown := fmt.Sprintf("%v %+v %#v %s %q %x %v %+v %v %s", c, c, c, c.Env, c.Env["PASSWORD"], c.Env, hidden, hidden, Values(c), encoded)
	if strings.Contains(shown, canary) || strings.Contains(shown, fmt.Sprintf("%x", canary)) {
		t.Errorf("it is shown: %s", shown)
	}
	for _, want := range []string{"<secret db-password>", `{"secret":"db-password@3"}`} {
		if !strings.Contains(shown, want) {
			t.Errorf("%s is shown nowhere in %s", want, shown)
		}
	}
}

func composed() map[string]any {
	return map[string]any{"parts": []any{"a:", map[string]any{"secret": "db-password@3"}, "@", map[string]any{"secret": "api@1"}}}
}

func TestOnlyRevealShowsAComposedText(t *testing.T) {
	o := operation(t, "container.create")
	args := map[string]any{"image": "web", "env": map[string]any{"URL": composed()}}
	secrets := map[Secret]string{"db-password@3": canary, "api@1": "{a}"}
	if problems := o.Args.CheckSent(args, nil); len(problems) > 0 {
		t.Fatal(problems)
	}
	if diff := cmp.Diff([]Secret{"api@1", "db-password@3"}, o.Args.Secrets(args)); diff != "" {
		t.Error(diff)
	}
	decoded, err := o.DecodeWith(args, secrets)
	if err != nil {
		t.Fatal(err)
	}
	text := decoded.(*ContainerCreate).Env["URL"]
	if value, err := text.Reveal(); value != "a:"+canary+"@{a}" || err != nil || text.Len() != len(value) || !text.HasSecret() || !text.IsComposed() {
		t.Errorf("the driver gets %q, %v", value, err)
	}
	if values, err := text.Secrets(); err != nil || !maps.Equal(values, secrets) {
		t.Errorf("its secrets are %v, %v", values, err)
	}
	encoded, err := json.Marshal(decoded)
	if err != nil {
		t.Fatal(err)
	}
	hidden := struct{ text Text }{text}
	shown := fmt.Sprintf("%v %+v %#v %s %v %+v %#v %s", decoded, text, text, text, hidden, hidden, hidden, encoded)
	if strings.Contains(shown, canary) || !strings.Contains(shown, "a:<secret db-password>@<secret api>") {
		t.Errorf("it is shown as %s", shown)
	}

	again, err := o.Decode(Values(decoded))
	if err != nil {
		t.Fatal(err)
	}
	recorded := again.(*ContainerCreate).Env["URL"]
	if !recorded.Equal(text) || recorded.Equal(PlainText(text.String())) {
		t.Errorf("a record has %v", recorded)
	}
	if _, err := recorded.Reveal(); writ.CodeOf(err) != writ.CodeInternal {
		t.Errorf("a record reveals %v", err)
	}
	if named := o.Args.NameSecrets(args)["env"].(map[string]any)["URL"]; !cmp.Equal(named, Composed{"a:", Secret("db-password@3"), "@", Secret("api@1")}) {
		t.Errorf("named: %#v", named)
	}
	other := composed()
	other["parts"].([]any)[0] = "b:"
	changed := map[string]any{"image": "web", "env": map[string]any{"URL": other}}
	if mutable, _ := o.Args.Changed(o.Args.Fill(args), o.Args.Fill(changed)); len(mutable) != 1 {
		t.Errorf("changed are %v", mutable)
	}
}

func TestInvalidComposedTextIsRejected(t *testing.T) {
	o := operation(t, "container.create")
	secret := map[string]any{"secret": "db@1"}
	many := make([]any, MaxParts+1)
	for i := range many {
		many[i] = secret
	}
	for name, v := range map[string]any{
		"no secret": map[string]any{"parts": []any{"a"}}, "no parts": map[string]any{"parts": []any{}}, "not a list": map[string]any{"parts": "a"},
		"a number": map[string]any{"parts": []any{secret, int64(1)}}, "a NUL": map[string]any{"parts": []any{secret, "\x00"}},
		"another field": map[string]any{"parts": []any{secret}, "more": "a"}, "nested": map[string]any{"parts": []any{composed()}},
		"many parts": map[string]any{"parts": many}, "not a secret": map[string]any{"parts": []any{map[string]any{"secret": "DB"}}},
	} {
		args := map[string]any{"image": "web", "env": map[string]any{"URL": v}}
		if problems := o.Args.CheckSent(args, nil); len(problems) == 0 {
			t.Errorf("%s is accepted", name)
		}
		if _, err := o.DecodeWith(args, map[Secret]string{"db@1": "x"}); err == nil {
			t.Errorf("%s is decoded", name)
		}
	}
	if problems := o.Args.Check(map[string]any{"image": "web", "env": map[string]any{"URL": composed()}}, nil); len(problems) == 0 {
		t.Error("a map of a script is a secret")
	}
	placed := operation(t, "container.create").Args.Check(map[string]any{"image": "web", "command": []any{Composed{"a", Secret("db@1")}}}, nil)
	if len(placed) != 1 || placed[0].Reason != SecretMisplaced {
		t.Errorf("in a command: %v", placed)
	}
}

func TestComposedTextHasALimit(t *testing.T) {
	args := map[string]any{"image": "web", "env": map[string]any{"URL": composed()}}
	long := map[Secret]string{"db-password@3": strings.Repeat(canary, MaxFile/len(canary)), "api@1": canary}
	decoded, err := operation(t, "container.create").DecodeWith(args, long)
	if err != nil {
		t.Fatal(err)
	}
	_, err = decoded.(*ContainerCreate).Env["URL"].Reveal()
	if writ.CodeOf(err) != writ.CodeArgumentsInvalid || strings.Contains(err.Error(), canary) {
		t.Errorf("a text above the limit: %.300v", err)
	}
}

func TestARecordKnowsSecretsByName(t *testing.T) {
	args, secrets := withSecrets()
	o := operation(t, "container.create")
	decoded, err := o.DecodeWith(args, secrets)
	if err != nil {
		t.Fatal(err)
	}
	again, err := o.Decode(Values(decoded))
	if err != nil {
		t.Fatal(err)
	}
	c := again.(*ContainerCreate)
	if value, err := c.Env["PASSWORD"].Reveal(); err == nil {
		t.Errorf("a record gives %q", value)
	}
	if name, ok := c.Env["PASSWORD"].Secret(); name != "db-password@3" || !ok {
		t.Errorf("a record names %q", name)
	}
	next, _ := withSecrets()
	next["env"].(map[string]any)["PASSWORD"] = map[string]any{"secret": "db-password@4"}
	if mutable, _ := o.Args.Changed(Values(decoded), next); !cmp.Equal(mutable, []string{"env"}) {
		t.Errorf("another version of the secret changes %v", mutable)
	}
	if diff := cmp.Diff([]Secret{"db-password@3"}, o.Args.Secrets(args)); diff != "" {
		t.Error(diff)
	}
}

func TestMisplacedSecretsAreRejected(t *testing.T) {
	secret := Secret("db-password@3")
	for _, tt := range []struct {
		operation string
		args      map[string]any
		want      Reason // "" for none
	}{
		{"container.create", map[string]any{"image": "web", "env": map[string]any{"A": secret}}, ""},
		{"container.exec", map[string]any{"command": []any{"x"}, "stdin": secret}, ""},
		{"machine.create", map[string]any{"cpus": int64(1), "memory_mib": int64(64), "cloud_init": secret}, ""},
		{"herodb.create", map[string]any{"memory_mib": int64(64), "password": secret}, ""},
		{"herodb.create", map[string]any{"memory_mib": int64(64), "password": "in the open"}, WrongType},
		{"herodb.create", map[string]any{"memory_mib": secret}, SecretMisplaced},
		{"container.create", map[string]any{"image": secret}, SecretMisplaced},
		{"container.create", map[string]any{"image": "web", "env": secret}, SecretMisplaced},
		{"container.create", map[string]any{"image": "web", "command": []any{secret}}, SecretMisplaced},
		{"container.create", map[string]any{"image": "web", "env": map[string]any{"A": map[string]any{"secret": "db-password@3"}}}, WrongType},
	} {
		problems := operation(t, tt.operation).Args.Check(tt.args, nil)
		switch {
		case tt.want == "" && len(problems) > 0:
			t.Errorf("%s %v: %v", tt.operation, tt.args, problems)
		case tt.want != "" && (len(problems) != 1 || problems[0].Reason != tt.want):
			t.Errorf("%s %v: %+v, want %s", tt.operation, tt.args, problems, tt.want)
		}
	}
}

func TestInvalidSecretValueIsNotShown(t *testing.T) {
	args := map[string]any{"memory_mib": int64(64), "password": map[string]any{"secret": "short@1"}}
	_, err := operation(t, "herodb.create").DecodeWith(args, map[Secret]string{"short@1": "hunter2"})
	if writ.CodeOf(err) != writ.CodeArgumentsInvalid || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "not 7") {
		t.Errorf("it says %v", err)
	}
}
