package catalog

import (
	"encoding/json"
	"fmt"
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
