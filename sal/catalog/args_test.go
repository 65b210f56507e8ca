package catalog

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"writ/internal/test/testenv"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"writ"
)

// operation returns an existing operation.
func operation(t testing.TB, name string) *Operation {
	t.Helper()
	o, ok := Lookup(name)
	if !ok {
		t.Fatalf("there is no %s", name)
	}
	return o
}

// seqOf recognises handles as scripts encode them in calls: {"ref": seq}. Seq 1 is a volume, 2 a network, and the kind
// of 3 is unknown.
func seqOf(v any) (writ.ResourceKind, bool) {
	m, ok := v.(map[string]any)
	if !ok || len(m) != 1 {
		return "", false
	}
	seq, ok := m["ref"].(int64)
	return map[int64]writ.ResourceKind{1: writ.KindVolume, 2: writ.KindNetwork}[seq], ok
}

func handle(seq int64) map[string]any { return map[string]any{"ref": seq} }

func TestCheckReportsEveryProblem(t *testing.T) {
	for _, tt := range []struct {
		operation string
		args      map[string]any
		want      []string // path: reason: text
	}{
		{"machine.create", map[string]any{"cpus": int64(2), "memory_mib": int64(2048), "disks": []any{handle(1), handle(3)}}, nil},
		{"machine.create", map[string]any{"cpus": Unknown{}, "memory_mib": Unknown{}, "env": map[string]any{"A": Unknown{}}, "disks": []any{Unknown{}}}, nil},
		{"machine.create", map[string]any{"cpus": "2", "memory": int64(2048), "disks": []any{handle(2), "root"}}, []string{
			`cpus: wrong_type: cpus must be an int, not a string`,
			`memory_mib: missing_field: field "memory_mib" is missing`,
			`disks[0]: wrong_value: disks[0] must be a handle to a volume, not to a network`,
			`disks[1]: wrong_type: disks[1] must be a handle to a volume, not a string`,
			`memory: unknown_field: no field "memory"; did you mean "memory_mib"?`,
		}},
		{"machine.create", map[string]any{"cpus": int64(0), "memory_mib": int64(64), "env": map[string]any{"1A": "x", "B": handle(1), "C": nil}, "cmdline": "a\nb"}, []string{
			`cpus: wrong_value: cpus must be 1 to 256, not 0`,
			`cmdline: wrong_value: cmdline must be one line such as console=ttyS0 root=/dev/vda1 rw, without control characters, not "a\nb"`,
			`env.1A: wrong_value: env.1A must be a variable's name like DB_HOST, not "1A"`,
			`env.B: wrong_type: env.B must be one line of text without #; got a handle to a volume; read one of its fields`,
			`env.C: wrong_type: env.C must be one line of text without #; got undefined`,
		}},
		{"volume.create", map[string]any{"sizee": int64(1)}, []string{
			`size_gib: missing_field: field "size_gib" is missing`,
			`sizee: unknown_field: no field "sizee"; did you mean "size_gib"?`, // the only missing one
		}},
		{"volume.create", map[string]any{"sizee": int64(1), "colour": int64(1)}, []string{
			`size_gib: missing_field: field "size_gib" is missing`,
			`colour: unknown_field: no field "colour"`,
			`sizee: unknown_field: no field "sizee"`,
		}},
		{"network.allow", map[string]any{"rules": []any{
			map[string]any{"protocol": "tpc", "ports": []any{int64(80), int64(0)}},
			map[string]any{"form": []any{}, "from": []any{"10.0.0.1/8", "400::/7"}},
			"all",
			map[string]any{"from": []any{}, "ports": []any{}}, // an empty list means no sender, not all senders
		}}, []string{
			`rules[0].protocol: wrong_value: rules[0].protocol must be one of tcp, udp, icmp, any, not "tpc"; did you mean "tcp"?`,
			`rules[0].ports[1]: wrong_value: rules[0].ports[1] must be 1 to 65535, not 0`,
			`rules[1].from[0]: wrong_value: rules[1].from[0] must be a source address range like 10.1.0.0/24 or 400::/7, host bits zero, not "10.0.0.1/8"`,
			`rules[1].form: unknown_field: no field "form" in rules[1]; did you mean "from"?`,
			`rules[2]: wrong_type: rules[2] must be a map such as {protocol: …}, not a string`,
			`rules[3].ports: wrong_value: rules[3].ports must have 1 to 64 elements, not 0`,
			`rules[3].from: wrong_value: rules[3].from must have 1 to 64 elements, not 0`,
		}},
		{"volume.create", map[string]any{"size_gib": int64(1), "image": "debian-12"}, nil},
		{"volume.create", map[string]any{"size_gib": int64(1), "image": nil}, nil},
		{"volume.create", map[string]any{"size_gib": int64(1), "image": "Debian 12"}, []string{
			`image: wrong_value: image must be a name of 1 to 63 lower-case letters, digits and hyphens, not "Debian 12"`,
		}},
		{"container.create", map[string]any{"image": "docker.io/library/nginx:1.29"}, nil},
		{"container.create", map[string]any{"image": "https://docker.io/library/nginx:1.29"}, []string{
			`image: wrong_value: image must be the name of an image, or a reference such as docker.io/library/nginx:1.27; ` +
				`"https://docker.io/library/nginx:1.29" is neither: its form is invalid`,
		}},
		{"volume.create", map[string]any{"size_gib": int64(1), "image": int64(12)}, []string{
			`image: wrong_type: image must be a handle to an image or the name of one, not an int`,
		}},
		{"image.fetch", map[string]any{"url": "http://example.com/a", "sha256": strings.Repeat("A", 64)}, []string{
			`url: wrong_value: url must be the URL of one file such as https://example.org/disk.raw or file:///srv/disk.raw, not "http://example.com/a"`,
			`sha256: wrong_value: sha256 must be 64 lower-case hex digits, not "` + strings.Repeat("A", 60) + `…"`,
		}},
		{"container.exec", map[string]any{"command": []any{}, "stdin": "a\x00b"}, []string{
			`command: wrong_value: command must have 1 to 256 elements, not 0`,
			`stdin: wrong_value: stdin must not contain a zero byte`,
		}},
		{"container.create", map[string]any{"image": "web", "volumes": []any{map[string]any{"volume": handle(1), "path": "/data/../etc"}}}, []string{
			`volumes[0].path: wrong_value: volumes[0].path must be an absolute path such as /data, without . and .., not "/data/../etc"`,
		}},
		{"node.ping", map[string]any{"cpus": int64(1)}, []string{`cpus: unknown_field: no field "cpus"`}},
		{"container.create", map[string]any{"image": "web", "depends_on": []any{handle(1)}}, []string{
			`depends_on: unknown_field: no field "depends_on"; ` + handleOrders,
		}},
	} {
		var got []string
		for _, p := range operation(t, tt.operation).Args.Check(tt.args, seqOf) {
			got = append(got, fmt.Sprintf("%s: %s: %s", p.Path, p.Reason, p))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s %v:\n%s", tt.operation, tt.args, diff)
		}
	}
}

func TestFormsAcceptOnlyTheirValues(t *testing.T) {
	for name, texts := range map[string]struct{ good, bad []string }{
		"name": {[]string{"a", "web-0"}, []string{"", "-a", "Web", "a.b", strings.Repeat("a", 64)}},
		"source": {[]string{"https://example.com/a?b=c", "file:///srv/a.raw"}, []string{"http://example.com/", "https://", "https:///a", "https://u:p@example.com/a", "file://host/a", "https://a b",
			"https://example.com", "https://example.com/images/", "https://example.com/a#b", "https://example.com:0/a", "https://example.com:70000/a", "https://0.0.0.0/a",
			"file:///srv/../etc/shadow", "file:///srv/", "file:///srv/a?b=c"}},
		"prefix": {[]string{"10.1.0.0/24", "400::/7", "0.0.0.0/0", "::/0", "10.0.0.7/32"}, []string{"10.1.0.1/24", "10.1.0.0", "10.1.0.0/33", "::ffff:1.2.3.4",
			"224.0.0.0/4", "239.1.0.0/16", "ff02::/16", "127.0.0.0/8", "::1/128", "0.0.0.0/32", "::/128", "fe80::/10", "169.254.1.0/24", "240.0.0.0/4", "255.255.255.255/32", "::ffff:0:0/96"}},
		"prefix4": {[]string{"10.1.0.0/24", "10.0.0.0/8", "172.31.0.0/16", "100.64.0.0/10"}, []string{"400::/7", "10.1.0.0/31", "0.0.0.0/0", "8.8.8.0/24", "224.0.0.0/24", "172.0.0.0/8"}},
		"path":    {[]string{"/data", "/var/lib/x.y", "/..data", "/dev/shm", "/procs", "/etc"}, []string{"", "/", "data", "/a/", "/a//b", "/a/..", "/./a", "/a\nb", "/proc", "/proc/sys", "/sys/fs", "/dev", "/etc/hosts", "/etc/resolv.conf/a"}},
		"sshkey": {[]string{loginKey, loginKey + " alice@example.com", "sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1NTE5QG9wZW5zc2guY29tAAAAIKqzKqzKqzKqzKqzKqzKqzKqzKqzKqzKqzKqzKqzKqzKAAAABHNzaDo="}, []string{
			"ssh-ed25519", "ssh-ed25519 AAAA", loginKey[:len(loginKey)-4], loginKey + "\n" + loginKey, "command=\"x\" " + loginKey, "ssh-rsa" + strings.TrimPrefix(loginKey, "ssh-ed25519"),
		}},
		"variable": {[]string{"A", "_b1"}, []string{"", "1a", "A=B", "A-B"}},
		"version":  {[]string{"7", "7.2", "7.2.4"}, []string{"", "v7", "7.2.4.1", "7."}},
		"sha256":   {[]string{strings.Repeat("0a", 32)}, []string{"", strings.Repeat("0A", 32), strings.Repeat("0a", 31), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}},
		"userdata": {[]string{"", "#cloud-config\na: b", "anything"}, []string{"a\x00b", "#cloud-config\na: ["}},
		"cmdline":  {[]string{"", "quiet console=ttyS0", `a="b c"`, strings.Repeat("a", 2047)}, []string{"a\nb", "a\x7f", "größe=1", `a="b c`, strings.Repeat("a", 2048)}},
		"program":  {[]string{"sh", "/usr/bin/my tool"}, []string{"", "  ", "ls\n"}},
		"value":    {[]string{"", "a b", "é"}, []string{"a\nb", "a\rb", "a#b"}},
	} {
		for _, s := range texts.good {
			if !forms[name].matches(s) || useless(name, s) != "" {
				t.Errorf("%q is no %s", s, name)
			}
		}
		for _, s := range texts.bad {
			if forms[name].matches(s) && useless(name, s) == "" {
				t.Errorf("%q is a %s", s, name)
			}
		}
	}
}

// useless returns the reason why a text is useless in a form.
func useless(form, text string) string {
	if check := forms[form].useless; check != nil {
		return check(text)
	}
	return ""
}

func TestDecodeReturnsTypedArguments(t *testing.T) {
	root := writ.Ref{Kind: writ.KindVolume, Name: "root", UID: "u1"}
	got, err := operation(t, "container.create").Decode(map[string]any{
		"image":    "web",
		"command":  []any{"serve", "-v"},
		"env":      map[string]any{"A": "b"},
		"networks": []any{writ.Ref{Kind: writ.KindNetwork, Name: "front", UID: "u2"}},
		"volumes":  []any{map[string]any{"volume": map[string]any{"kind": "volume", "name": "root", "uid": "u1"}, "path": "/data"}},
		"restart":  nil,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &ContainerCreate{
		ContainerProgram: ContainerProgram{
			Image:     writ.Ref{Kind: writ.KindImage, Name: "web"},
			Command:   []string{"serve", "-v"},
			Env:       map[string]Text{"A": PlainText("b")},
			CPUs:      100,
			MemoryMiB: 512,
			Networks:  []writ.Ref{{Kind: writ.KindNetwork, Name: "front", UID: "u2"}},
			Volumes:   []Mount{{Volume: root, Path: "/data"}},
		},
		Restart: "always",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDecodeRejectsInvalidArguments(t *testing.T) {
	for _, args := range []map[string]any{
		{"cpus": int64(1)},
		{"cpus": int64(1), "memory_mib": int64(512), "memmory": int64(1)},
		{"cpus": 1, "memory_mib": int64(512)},
		{"cpus": int64(1), "memory_mib": int64(512), "disks": []any{handle(1)}},
		{"cpus": int64(1), "memory_mib": int64(512), "disks": []any{writ.Ref{Kind: writ.KindImage, Name: "a", UID: "u"}}},
		{"cpus": int64(1), "memory_mib": int64(512), "disks": []any{writ.Ref{Kind: writ.KindVolume, Name: "../a", UID: "u"}}},
		{"cpus": int64(1), "memory_mib": int64(512), "disks": []any{map[string]any{"kind": "volume", "name": "a", "uid": ""}}},
		{"cpus": int64(1), "memory_mib": int64(512), "disks": []any{map[string]any{"kind": "volume", "name": "a", "uid": "u", "x": "y"}}},
		{"cpus": Unknown{}, "memory_mib": int64(512)},
	} {
		got, err := operation(t, "machine.create").Decode(args)
		if writ.CodeOf(err) != writ.CodeArgumentsInvalid || !strings.HasPrefix(fmt.Sprint(err), "machine.create: ") {
			t.Errorf("%v: %v, %v; want ARGUMENTS_INVALID", args, got, err)
		}
	}
}

func TestReplaceHandlesReachesAllHandles(t *testing.T) {
	s := operation(t, "container.create").Args
	args := map[string]any{
		"image":    "web",
		"env":      map[string]any{"ref": "not a handle"},
		"networks": []any{handle(2)},
		"volumes":  []any{map[string]any{"volume": handle(1), "path": "/data"}},
	}
	got, err := s.ReplaceHandles(args, func(v any) (any, error) {
		return fmt.Sprint("seq ", v.(map[string]any)["ref"]), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"image":    "web",
		"env":      map[string]any{"ref": "not a handle"},
		"networks": []any{"seq 2"},
		"volumes":  []any{map[string]any{"volume": "seq 1", "path": "/data"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(handle(1), args["volumes"].([]any)[0].(map[string]any)["volume"]); diff != "" {
		t.Errorf("the arguments themselves were changed: %s", diff)
	}
	if diff := cmp.Diff([]writ.Ref{{Kind: writ.KindImage, Name: "web"}}, s.Named(args)); diff != "" {
		t.Error(diff)
	}
	gone := errors.New("gone")
	if _, err := s.ReplaceHandles(args, func(any) (any, error) { return nil, gone }); !errors.Is(err, gone) {
		t.Errorf("the error was %v", err)
	}
}

func TestChangedSeparatesMutableFields(t *testing.T) {
	base := map[string]any{"image": "web", "cpus": int64(2), "restart": "always", "networks": []any{writ.Ref{Kind: writ.KindNetwork, Name: "front", UID: "u2"}}}
	with := func(name string, v any) map[string]any {
		changed := map[string]any{name: v}
		for k, v := range base {
			if _, ok := changed[k]; !ok {
				changed[k] = v
			}
		}
		return changed
	}
	network := func(name, uid string) []any {
		return []any{map[string]any{"kind": "network", "name": name, "uid": uid}}
	}
	for _, tt := range []struct {
		name               string
		new                map[string]any
		mutable, immutable []string
	}{
		{"nothing", base, nil, nil},
		{"a default that is said", with("memory_mib", int64(512)), nil, nil},
		{"a default that is not said", with("restart", nil), nil, nil},
		{"empty instead of absent", with("env", map[string]any{}), nil, nil},
		{"another form of the same handle", with("networks", network("front", "u2")), nil, nil},
		{"the same image as a handle", with("image", writ.Ref{Kind: writ.KindImage, Name: "web", UID: "u9"}), nil, nil},
		{"a secret instead of a text", with("env", map[string]any{"A": Secret("a@1").form()}), []string{"env"}, nil},
		{"another image", with("image", "web-2"), []string{"image"}, nil},
		{"fewer CPUs", with("cpus", nil), []string{"cpus"}, nil},
		{"a network of the same name that was made again", with("networks", network("front", "u3")), nil, []string{"networks"}},
		{"one more network", with("networks", append(network("front", "u2"), network("back", "u4")...)), nil, []string{"networks"}},
		{"a mount", with("volumes", []any{map[string]any{"volume": handle(1), "path": "/a"}}), nil, []string{"volumes"}},
	} {
		mutable, immutable := operation(t, "container.create").Args.Changed(base, tt.new)
		if !cmp.Equal(mutable, tt.mutable) || !cmp.Equal(immutable, tt.immutable) {
			t.Errorf("%s: mutable %v, immutable %v; want %v, %v", tt.name, mutable, immutable, tt.mutable, tt.immutable)
		}
	}
}

// For all valid arguments, Values reverses Decode, so drivers get the arguments that were sent, without a change.
func TestValuesReverseDecode(t *testing.T) {
	testenv.CheckProperty(t, func(t *rapid.T) {
		o := rapid.SampledFrom(Operations()).Draw(t, "operation")
		args := drawArgs(t, o.Args)
		first, err := o.Decode(args)
		if err != nil {
			t.Fatalf("%s does not take %v: %v", o.Name(), args, err)
		}
		values := Values(first)
		if err := writ.CheckValue(values); err != nil {
			t.Fatal(err)
		}
		second, err := o.Decode(values)
		if err != nil {
			t.Fatalf("%s does not take %v: %v", o.Name(), values, err)
		}
		if diff := cmp.Diff(Values(second), values); diff != "" {
			t.Fatal(diff)
		}
		if mutable, immutable := o.Args.Changed(args, values); mutable != nil || immutable != nil {
			t.Fatalf("%v and %v differ in %v and %v", args, values, mutable, immutable)
		}
	})
}

// Jobs are signed, but a driver must be safe from a supervisor of another version.
func TestDecodeRejectsHostileArguments(t *testing.T) {
	testenv.CheckProperty(t, func(t *rapid.T) {
		o := rapid.SampledFrom(Operations()).Draw(t, "operation")
		args := map[string]any{"stray": drawAnything(t, 3)}
		for _, name := range o.Args.Names() {
			args[name] = drawAnything(t, 3)
		}
		if _, err := o.Decode(args); writ.CodeOf(err) != writ.CodeArgumentsInvalid {
			t.Fatalf("%s %v: %v", o.Name(), args, err)
		}
		o.Args.Changed(args, o.Args.Fill(args))
		o.Args.Named(args)
	})
}

func drawAnything(t *rapid.T, depth int) any {
	switch n := rapid.IntRange(0, 11).Draw(t, "sort"); {
	case n == 0:
		return nil
	case n == 1:
		return 1.5
	case n == 2:
		return Unknown{}
	case n == 3:
		return writ.Ref{Kind: "volume", Name: rapid.String().Draw(t, "name")}
	case n == 4:
		return rapid.Bool().Draw(t, "bool")
	case n <= 6:
		return rapid.Int64().Draw(t, "int")
	case n <= 8 || depth == 0:
		return rapid.String().Draw(t, "string")
	case n == 9:
		return map[string]any{"kind": drawAnything(t, 0), "name": drawAnything(t, 0), "uid": "u"}
	case n == 10:
		list := make([]any, rapid.IntRange(0, 3).Draw(t, "length"))
		for i := range list {
			list[i] = drawAnything(t, depth-1)
		}
		return list
	default:
		return map[string]any{rapid.String().Draw(t, "key"): drawAnything(t, depth-1)}
	}
}

// loginKey is a complete public SSH key.
const loginKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDwUdFwEreDQth3W4mW2Geh6e6VeXP7uCWMqkv6hr3DV"

// examples maps forms to values that fit.
var examples = map[string]string{
	"name": "web-0", "sha256": strings.Repeat("0a", 32), "source": "https://example.com/a", "prefix": "400::/7", "prefix4": "10.1.0.0/24",
	"path": "/data", "urlpath": "/healthz", "account": "ci", "sshkey": loginKey, "variable": "A", "cmdline": "quiet", "program": "sh", "value": "a", "version": "7.2", "userdata": "#cloud-config",
	"mode": "0640", "directory": "/app", "owner": "app", "device": "kvm",
}

func drawArgs(t *rapid.T, s Schema) map[string]any {
	args := map[string]any{}
	for i := range s {
		if f := &s[i]; f.Required || rapid.Bool().Draw(t, f.Name) {
			args[f.Name] = drawValue(t, f)
		}
	}
	return args
}

func drawValue(t *rapid.T, f *Field) any {
	switch f.Type {
	case Handle:
		if f.ByName && rapid.Bool().Draw(t, "by name") {
			return "web"
		}
		return writ.Ref{Kind: f.Kinds[0], Name: "web", UID: "u1"}
	case Bool:
		return rapid.Bool().Draw(t, f.Name)
	case Int:
		return rapid.Int64Range(*f.Min, *f.Max).Draw(t, f.Name)
	case Decimal:
		return decimal(writ.Hundredths(rapid.Int64Range(*f.Min, *f.Max).Draw(t, f.Name)))
	case List:
		list := []any{}
		for range rapid.IntRange(1, 3).Draw(t, f.Name) {
			list = append(list, drawValue(t, f.Elem))
		}
		return list
	case Map:
		for name, form := range forms {
			if f.Key.Form == form.text {
				return map[string]any{examples[name]: drawValue(t, f.Elem)}
			}
		}
		return map[string]any{"key": drawValue(t, f.Elem)}
	case Object:
		return drawArgs(t, f.Fields)
	}
	if f.Hidden || f.Secret && rapid.Bool().Draw(t, "secret") {
		return Secret(rapid.SampledFrom([]string{"db-password@3", "db-password@4"}).Draw(t, f.Name)).form()
	}
	if f.Enum != nil {
		return rapid.SampledFrom(f.Enum).Draw(t, f.Name)
	}
	for name, form := range forms {
		if f.Form == form.text {
			return examples[name]
		}
	}
	return rapid.StringMatching(`[a-zé ]{0,20}`).Draw(t, f.Name)
}

func TestFillLeavesItsInputAlone(t *testing.T) {
	s := operation(t, "network.allow").Args
	args := map[string]any{"rules": []any{map[string]any{"ports": []any{int64(80)}}, map[string]any{"protocol": "udp"}}, "other": nil}
	want := map[string]any{"rules": []any{
		map[string]any{"ports": []any{int64(80)}, "protocol": "tcp"},
		map[string]any{"protocol": "udp"},
	}}
	if diff := cmp.Diff(want, s.Fill(args)); diff != "" {
		t.Error(diff)
	}
	if _, filled := args["rules"].([]any)[0].(map[string]any)["protocol"]; filled {
		t.Error("the arguments themselves were changed")
	}
}

func TestFractionsOfCPUs(t *testing.T) {
	op := operation(t, "container.create")
	for _, tt := range []struct {
		given  any
		stored any // nil if it is refused
		want   string
	}{
		{0.25, "0.25", ""}, {0.1 + 0.2, "0.3", ""}, {1.0, int64(1), ""}, {int64(2), int64(2), ""}, {"0.50", "0.5", ""},
		{0.01, "0.01", ""}, {256.0, int64(256), ""}, {Unknown{}, Unknown{}, ""},
		{int64(0), nil, "cpus must be a number from 0.01 to 256 in steps of 0.01, not 0"},
		{int64(-1), nil, "in steps of 0.01, not -1"}, {-0.5, nil, "not -0.5"}, {0.001, nil, "not 0.001"}, {0.125, nil, "not 0.125"},
		{256.01, nil, "not 256.01"}, {int64(1) << 62, nil, "not 4611686018427387904"}, {math.NaN(), nil, "not NaN"}, {math.Inf(1), nil, "not +Inf"},
		{"half", nil, `not "half"`}, {true, nil, "cpus must be a number, not a bool"},
	} {
		args := map[string]any{"image": "web", "cpus": tt.given}
		problems := op.Args.Check(args, nil)
		if tt.stored == nil {
			if len(problems) != 1 || !strings.Contains(problems[0].Message, tt.want) {
				t.Errorf("%v: %v, want %s", tt.given, problems, tt.want)
			}
			continue
		}
		if got := op.Args.Fill(args)["cpus"]; len(problems) > 0 || got != tt.stored {
			t.Errorf("%v is stored as %v (%T): %v", tt.given, got, got, problems)
		}
	}
	if _, err := op.Decode(map[string]any{"image": "web", "cpus": 0.25}); writ.CodeOf(err) != writ.CodeArgumentsInvalid {
		t.Errorf("a float in a job: %v", err)
	}
	args, err := op.Decode(map[string]any{"image": "web", "cpus": "0.25"})
	if err != nil || args.(*ContainerCreate).CPUs != 25 || Values(args)["cpus"] != "0.25" {
		t.Errorf("it is decoded as %+v, %v", args, err)
	}
	if got, want := op.Needs(map[string]any{"cpus": "1.25"}), (writ.Capacity{CPUs: 1, Hundredths: 25, MemoryMiB: 512}); got != want {
		t.Errorf("it needs %+v, want %+v", got, want)
	}
	for other, changed := range map[any]bool{int64(1): false, "1.00": false, "0.99": true, nil: false} {
		mutable, _ := op.Args.Changed(map[string]any{"image": "web", "cpus": int64(1)}, map[string]any{"image": "web", "cpus": other})
		if (len(mutable) > 0) != changed {
			t.Errorf("1 and %v: changed %v", other, mutable)
		}
	}
}
