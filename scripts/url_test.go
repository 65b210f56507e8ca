package scripts_test

import (
	"slices"
	"strings"
	"testing"

	"writ"
	"writ/scripts"
	"writ/scripts/interpreter"
)

// urlOf runs a script whose only call gets these result values, and returns the output "url".
func urlOf(t *testing.T, text string, result map[string]any) (any, *writ.Failure) {
	t.Helper()
	program := compile(t, bundleOf(imports+text))
	w := &fixture{}
	o, err := program.Pass(t.Context(), everything(), nil)
	if err != nil || o.Status != scripts.Waiting || !slices.Equal(o.Waiting, []int{1}) {
		t.Fatalf("the first pass is %s, waiting for %v: %v %+v", o.Status, o.Waiting, err, o.Failure)
	}
	w.take(t, o.Calls)
	w.journal[0].State, w.journal[0].Values = scripts.EntrySucceeded, result
	if o, err = program.Pass(t.Context(), everything(), w.journal); err != nil {
		t.Fatal(err)
	}
	return o.Output["url"], o.Failure
}

func published(list ...any) map[string]any {
	m := map[string]any{"name": "web", "uid": "u", "state": "running", "published": list}
	if len(list) == 0 {
		delete(m, "published")
	}
	return m
}

func at(address string, port, to int64, protocol string) any {
	return map[string]any{"address": address, "port": port, "to": to, "protocol": protocol}
}

func with(m map[string]any, field string, value any) map[string]any {
	m[field] = value
	return m
}

// Promise: Plans, scripts and manuals: `run.url` returns the published address of a port, or else the one on the
// network, with brackets around IPv6, and fails if the resource has no such port.
func TestURLOfResource(t *testing.T) {
	const web = `web := container.get("web"); run.output({url: run.url("http", web, 80)})`
	const machine = `web := machine.get("web"); run.output({url: run.url("http", web, 80)})`
	const db = `db := herodb.get("db"); run.output({url: run.url("redis", db, 6379)})`
	for name, tt := range map[string]struct {
		text   string
		result map[string]any
		want   string // the URL, or a part of the error
	}{
		"IPv4":                {web, published(at("192.0.2.10", 8080, 80, "tcp")), "http://192.0.2.10:8080"},
		"IPv6":                {web, published(at("2001:db8::10", 8080, 80, "tcp")), "http://[2001:db8::10]:8080"},
		"first address":       {web, published(at("2001:db8::10", 8080, 80, "tcp"), at("192.0.2.10", 8080, 80, "tcp")), "http://[2001:db8::10]:8080"},
		"loopback comes last": {web, published(at("127.0.0.1", 8080, 80, "tcp"), at("192.0.2.10", 8081, 80, "tcp")), "http://192.0.2.10:8081"},
		"only loopback":       {web, published(at("127.0.0.1", 8080, 80, "tcp")), "http://127.0.0.1:8080"},
		"TCP before UDP":      {web, published(at("192.0.2.10", 53, 80, "udp"), at("127.0.0.1", 8080, 80, "tcp")), "http://127.0.0.1:8080"},
		"published first":     {web, with(published(at("192.0.2.10", 8080, 80, "tcp")), "address", "fd00::7"), "http://192.0.2.10:8080"},
		"network":             {web, with(published(), "address", "fd00::7"), "http://[fd00::7]:80"},
		"other port":          {web, with(published(at("192.0.2.10", 8443, 443, "tcp")), "address", "fd00::7"), "http://[fd00::7]:80"},
		"only IPv4":           {web, with(published(), "ipv4", "10.0.0.2"), "http://10.0.0.2:80"},
		"machine":             {machine, with(published(), "address", "fd00::7"), "http://[fd00::7]:80"},
		"database":            {db, map[string]any{"address": "[fd00::7]:6379", "host": "fd00::7", "port": int64(6379)}, "redis://[fd00::7]:6379"},

		"no address": {web, published(), "container web has no network and publishes no port"},
		"not published": {web, published(at("192.0.2.10", 8443, 443, "tcp"), at("127.0.0.1", 8443, 443, "tcp"), at("192.0.2.10", 8053, 53, "udp")),
			"container web has no network and publishes its port 443 and 53, not 80"},
		"port of the node": {web, with(published(at("192.0.2.10", 80, 8080, "tcp")), "address", "fd00::7"),
			"container web does not publish its port 80: port 80 of the node leads to its port 8080"},
		"port of another database": {db, map[string]any{"address": "[fd00::7]:7000", "host": "fd00::7", "port": int64(7000)}, "herodb db listens on port 7000, not on 6379"},
	} {
		url, failure := urlOf(t, tt.text, tt.result)
		switch {
		case failure == nil && url != tt.want:
			t.Errorf("%s: the URL is %v, want %s", name, url, tt.want)
		case failure != nil && (!strings.Contains(failure.Message, tt.want) || failure.Code != writ.CodeScriptFailed || failure.Position == ""):
			t.Errorf("%s: failed with %+v, want %s", name, failure, tt.want)
		}
	}
}

func TestURLRefusesWrongArguments(t *testing.T) {
	for text, want := range map[string]string{
		`run.url("http", volume.create("a", {size_gib: 1}), 80)`: "not the result of volume.create",
		`run.url("http", node.facts(), 80)`:                      "not the result of node.facts",
		`run.url("http", 7, 80)`:                                 "second, not 7",
		`run.url("http", {address: "fd00::7"}, 80)`:              "second, not a map",
		`run.url("http", "a/b", 80)`:                             `a host second, not "a/b"`,
		`run.url("http", "[fd00::7]", 80)`:                       `a host second, not "[fd00::7]"`,
		`run.url("http", machine.get("a"), 0)`:                   "a port from 1 to 65535 third, not 0",
		`run.url("http", machine.get("a"), 65536)`:               "not 65536",
		`run.url("http", machine.get("a"), "80")`:                `not "80"`,
		`run.url("http://", machine.get("a"), 80)`:               `a scheme such as "http" first, not "http://"`,
		`run.url(80, machine.get("a"), 80)`:                      "first, not 80",
		`run.url("http", run.secret("db-password"), 80)`:         "second, not a secret",
		`run.url(run.secret("db-password"), "a", 80)`:            "first, not a secret",
		`run.url("http", machine.get("a"))`:                      "run.url takes 3 arguments, not 2",
	} {
		in := everything()
		in.Secrets = []string{"db-password@3"}
		o := passed(t, in, "x := "+text)
		if o.Status != scripts.Failed || !strings.Contains(o.Failure.Message, want) {
			t.Errorf("%s: %s, %+v, want %q", text, o.Status, o.Failure, want)
		}
	}
}

func TestURLOfHost(t *testing.T) {
	o := passed(t, everything(), `run.output({urls: [run.url("http", "fd00::7", 80), run.url("redis", "db.example.org", 6379), run.url("https", "10.0.0.2", 443)]})`)
	want := []any{"http://[fd00::7]:80", "redis://db.example.org:6379", "https://10.0.0.2:443"}
	if got, _ := o.Output["urls"].([]any); !slices.Equal(got, want) {
		t.Errorf("URLs are %v, %+v", got, o.Failure)
	}
}

func TestURLIsUnknownInPlan(t *testing.T) {
	plan, err := interpreter.PlanOf(t.Context(), bundleOf(imports+`
web := container.create("web", {image: "web"})
container.create("job", {image: "job", env: {WEB: run.url("http", web, 80)}})
`), everything())
	if err != nil || plan.Failure != nil || plan.Horizon != nil || len(plan.Calls) != 2 {
		t.Fatalf("%v %+v", err, plan)
	}
	env, _ := plan.Calls[1].Args["env"].(map[string]any)
	if got, ok := env["WEB"].(map[string]any); !ok || got[scripts.KnownAfterKey] == nil {
		t.Errorf("the URL is %v", env["WEB"])
	}
}
