package catalog

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The path of a nested list has spare capacity, which the paths of both elements must not share.
func TestRepeatedElementsAreNamedByBothPaths(t *testing.T) {
	f := &Field{Name: "ports", Type: List, Distinct: "elements", Elem: &Field{Type: Int}}
	at := append(make(Path, 0, 8), "rules", 1, "ports")
	c := checker{meaning: true}
	c.list(f, []any{int64(80), int64(443), int64(80)}, at)
	want := []Problem{{
		Path: Path{"rules", 1, "ports", 2}, Reason: WrongValue,
		Message: "rules[1].ports[2] must differ from rules[1].ports[0]: the second one has no effect",
	}}
	if diff := cmp.Diff(want, c.problems); diff != "" {
		t.Error(diff)
	}
}

func TestLongListsAreNotCompared(t *testing.T) {
	limit := int64(2)
	f := &Field{Name: "disks", Type: List, Distinct: "elements", Max: &limit, Elem: &Field{Type: Int}}
	c := checker{meaning: true}
	c.value(f, []any{int64(1), int64(1), int64(1)}, Path{"disks"})
	if len(c.problems) != 1 {
		t.Errorf("the problems are %v, want the number of elements alone", c.problems)
	}
}

// Each wrong health check has one problem, which names the field.
func TestHealthCheckIsCheckedByItsMeaning(t *testing.T) {
	o, _ := Lookup("container.create")
	command := []any{"pg_isready"}
	for _, c := range []struct {
		health any
		want   string
	}{
		{map[string]any{"http": "/healthz?deep=1", "port": int64(8080)}, ""},
		{map[string]any{"tcp": int64(5432), "interval_seconds": int64(1), "timeout_seconds": int64(1)}, ""},
		{map[string]any{"command": command, "interval_seconds": int64(5)}, ""},
		{map[string]any{"http": Unknown{}, "port": Unknown{}, "interval_seconds": Unknown{}}, ""},
		{map[string]any{}, "health must have one of http, tcp, command and image"},
		{map[string]any{"retries": int64(2)}, "health must have one of http, tcp, command and image"},
		{map[string]any{"tcp": int64(1), "command": command}, "health must have only one of tcp and command"},
		{map[string]any{"http": "/", "port": int64(1), "tcp": int64(1), "command": command}, "health must have only one of http and tcp and command"},
		{map[string]any{"http": "/"}, "health needs port: the container publishes no TCP port"},
		{map[string]any{"tcp": int64(80), "port": int64(80)}, "health.port has no effect without http: give both, or omit it"},
		{map[string]any{"http": "/", "port": int64(0)}, "health.port must be 1 to 65535, not 0"},
		{map[string]any{"tcp": int64(65536)}, "health.tcp must be 1 to 65535, not 65536"},
		{map[string]any{"tcp": "80"}, `health.tcp must be an int, not a string`},
		{map[string]any{"http": "healthz", "port": int64(1)}, `health.http must be a path such as /healthz, not "healthz"`},
		{map[string]any{"http": "http://10.0.0.1/", "port": int64(1)}, `health.http must be a path such as /healthz, not "http://10.0.0.1/"`},
		{map[string]any{"http": "/a b", "port": int64(1)}, `health.http must be a path such as /healthz, not "/a b"`},
		{map[string]any{"http": "/%zz", "port": int64(1)}, `health.http must be a path such as /healthz, not "/%zz": it cannot be parsed`},
		{map[string]any{"http": "/a#b", "port": int64(1)}, `health.http must be a path such as /healthz, not "/a#b": it has a fragment, which no server receives`},
		{map[string]any{"command": []any{}}, "health.command must have 1 to 256 elements, not 0"},
		{map[string]any{"command": []any{""}}, `health.command[0] must be a program such as /usr/bin/env, not "": it names no program`},
		{map[string]any{"command": "pg_isready"}, "health.command must be a list, not a string"},
		{map[string]any{"tcp": int64(1), "timeout_seconds": int64(11)}, "health.timeout_seconds must be at most interval_seconds, which is 10, not 11"},
		{map[string]any{"tcp": int64(1), "interval_seconds": int64(2)}, "health.timeout_seconds must be at most interval_seconds, which is 2, not 3"},
		{map[string]any{"command": command, "interval_seconds": int64(4)}, "health.interval_seconds must be at least 5 for a command, not 4"},
		{map[string]any{"tcp": int64(1), "retries": int64(0)}, "health.retries must be 1 to 100, not 0"},
		{map[string]any{"tcp": int64(1), "intervall_seconds": int64(9)}, `no field "intervall_seconds" in health; did you mean "interval_seconds"?`},
		{"/healthz", "health must be a map such as {http: …}, not a string"},
		{map[string]any{"image": true}, ""},
		{map[string]any{"image": false}, "health must have one of http, tcp, command and image"},
		{map[string]any{"image": true, "tcp": int64(1)}, "health must have only one of tcp and image"},
		{map[string]any{"image": true, "interval_seconds": int64(4)}, "health.interval_seconds must be at least 5 for a command, not 4"},
	} {
		got := ""
		problems := o.Args.Check(map[string]any{"image": "web", "health": c.health}, nil)
		for _, p := range problems {
			got = p.String()
		}
		if got != c.want || len(problems) > 1 {
			t.Errorf("%v: %d problems, the last is %q; want %q", c.health, len(problems), got, c.want)
		}
	}
}

// The only TCP port to which published ports lead is the default of the port of an HTTP check.
func TestPublishedPortIsDefaultOfHealthCheck(t *testing.T) {
	o, _ := Lookup("container.create")
	port := func(from, to int64, protocol any) map[string]any {
		return map[string]any{"port": from, "to": to, "protocol": protocol}
	}
	const none = "health needs port: the container publishes no TCP port"
	const text = "publish[0] must be a map such as {port: …, to: …}, not a string"
	const several = "health needs port: the container publishes several TCP ports"
	for name, c := range map[string]struct {
		publish any
		want    string
		port    int64
	}{
		"one port":                {[]any{port(8080, 80, "tcp")}, "", 80},
		"default protocol":        {[]any{map[string]any{"port": int64(0), "to": int64(80)}}, "", 80},
		"two ports to one":        {[]any{port(8080, 80, "tcp"), port(8081, 80, "tcp")}, "", 80},
		"another port by UDP":     {[]any{port(8080, 80, "tcp"), port(53, 53, "udp")}, "", 80},
		"a port by UDP alone":     {[]any{port(53, 53, "udp")}, none, 0},
		"an empty list":           {[]any{}, none, 0},
		"two ports":               {[]any{port(8080, 80, "tcp"), port(8443, 443, "tcp")}, several, 0},
		"unknown ports":           {Unknown{}, "", 0},
		"an unknown port":         {[]any{port(8080, 80, "tcp"), Unknown{}}, "", 0},
		"a port with an unknown":  {[]any{port(8080, 80, Unknown{})}, "", 0},
		"a text as a port":        {[]any{"8080:80"}, text, 0},
		"a port without target":   {[]any{map[string]any{"port": int64(8080)}}, "field \"to\" is missing in publish[0]", 0},
		"two with one unknown to": {[]any{port(8080, 80, "tcp"), map[string]any{"port": int64(1), "to": Unknown{}}}, "", 0},
	} {
		args := map[string]any{"image": "web", "publish": c.publish, "health": map[string]any{"http": "/"}}
		got := ""
		problems := o.Args.Check(args, nil)
		for _, p := range problems {
			got = p.String()
		}
		if got != c.want || len(problems) > 1 {
			t.Errorf("%s: %d problems, the last is %q; want %q", name, len(problems), got, c.want)
		}
		if c.want != none && c.want != several && c.port == 0 { // unknown and invalid values cannot be decoded
			continue
		}
		decoded, err := o.Decode(o.Args.Fill(args))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if h := decoded.(*ContainerCreate).HealthCheck(); h.Port != c.port {
			t.Errorf("%s: the port is %d, want %d", name, h.Port, c.port)
		}
	}
	given := ContainerCreate{Health: Health{HTTP: "/", Port: 9}, Publish: []Publish{{Port: 1, To: 80, Protocol: "tcp"}}}
	if h := given.HealthCheck(); h.Port != 9 {
		t.Errorf("a given port becomes %d", h.Port)
	}
	if h := (&ContainerCreate{Publish: given.Publish}).HealthCheck(); h.Port != 0 {
		t.Errorf("without a check, the port is %d", h.Port)
	}
}

func TestCallHasTimeForItsHealthCheck(t *testing.T) {
	create, _ := Lookup("container.create")
	start, _ := Lookup("container.start")
	exec, _ := Lookup("container.exec")
	health := func(fields ...any) map[string]any {
		check := map[string]any{"tcp": int64(80)}
		for i := 0; i < len(fields); i += 2 {
			check[fields[i].(string)] = fields[i+1]
		}
		return map[string]any{"health": check}
	}
	slow := health("start_seconds", int64(1200), "retries", int64(10), "timeout_seconds", int64(8))
	both := map[string]any{"grace_seconds": int64(600), "health": slow["health"]}
	for _, c := range []struct {
		op         *Operation
		args, made map[string]any
		want       time.Duration
	}{
		{create, nil, nil, 5 * time.Minute},
		{create, health(), nil, 5 * time.Minute},
		{create, slow, nil, (1200 + 10*(8+10) + 120) * time.Second},
		{create, both, nil, (600 + 1200 + 10*(8+10) + 120) * time.Second},
		{start, nil, nil, 2 * time.Minute},
		{start, nil, health(), (30 + 3*(3+10) + 120) * time.Second},
		{start, nil, slow, (1200 + 10*(8+10) + 120) * time.Second},
		{create, health("healthy_seconds", int64(900)), nil, (30 + 3*(3+10) + 900 + 120) * time.Second},
		{exec, nil, slow, 5 * time.Minute},
	} {
		if got := c.op.TimeLimit(c.args, c.made); got != c.want {
			t.Errorf("%s(%v) of %v: %s, want %s", c.op.Name(), c.args, c.made, got, c.want)
		}
	}
	if name, wait := create.LongestWait(both); name != "health.start_seconds" || wait != 20*time.Minute {
		t.Errorf("the longest wait is %s, %s", name, wait)
	}
}
