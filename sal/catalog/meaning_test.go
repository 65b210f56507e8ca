package catalog

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"writ"
)

func TestCheckRefusesUselessValues(t *testing.T) {
	machine := func(field string, v any) map[string]any {
		return map[string]any{"cpus": int64(1), "memory_mib": int64(512), field: v}
	}
	withEnv := func(userData any) map[string]any {
		args := machine("cloud_init", userData)
		args["env"] = map[string]any{"A": "b"}
		return args
	}
	withLogin := func(image any, user string) map[string]any {
		return map[string]any{"image": image, "login": map[string]any{"user": user, "password": Secret("reg@1")}}
	}
	mount := func(path any) map[string]any { return map[string]any{"volume": handle(1), "path": path} }
	for _, tt := range []struct {
		operation string
		args      map[string]any
		want      string // parts of the only problem, "" if there is none
	}{
		{"machine.create", machine("cloud_init", ""), ""},
		{"machine.create", machine("cloud_init", "#cloud-config\n"), ""},
		{"machine.create", machine("cloud_init", "#cloud-config\npackages: [a]\nx: !!binary aGVsbG8=\n"), ""},
		{"machine.create", machine("cloud_init", "#cloud-config\r\npackages:\r\n- a\r\n"), ""},
		{"machine.create", machine("cloud_init", "#!/bin/sh\necho [\n"), ""},
		{"machine.create", machine("cloud_init", "## template: jinja\n#cloud-config\na: {{ v1.x }}\n"), ""},
		{"machine.create", machine("cloud_init", "machine:\n  type: worker\n"), ""},
		{"machine.create", machine("cloud_init", "#cloud-config-archive\n- a\n"), ""},
		{"machine.create", machine("cloud_init", "# cloud-config\npackages: [a]\n"), "without a space after #"},
		{"machine.create", machine("cloud_init", "#cloud-config\npackages: [a\n"), "not valid YAML"},
		{"machine.create", machine("cloud_init", "#cloud-config\nusers:\n\t- a\n"), "lines are indented with spaces"},
		{"machine.create", machine("cloud_init", " #Cloud-Config\n- a\n"), "it is a list"},
		{"machine.create", machine("cloud_init", "#cloud-config\na: b\n---\nc: d\n"), "a second document"},
		{"machine.create", machine("cloud_init", "H4sIAAAAAAAAA1NOzskvTdFNzs9Ly0znAgCOAAAA"), "encoded in base64"},
		{"machine.create", machine("cloud_init", "I2Nsb3VkLWNvbmZpZwo="), "encoded in base64"},
		{"machine.create", machine("cloud_init", "#cloud_config\npackages: [a]\n"), "with a hyphen"},
		{"machine.create", machine("cloud_init", "#CloudConfig\n"), "with a hyphen"},
		{"machine.create", machine("cloud_init", "\ufeff#cloud-config\npackages: [a]\n"), "byte order mark"},
		{"machine.create", machine("cloud_init", "\ufeff#!/bin/sh\n"), "byte order mark"},
		{"machine.create", machine("cloud_init", "\ufeffmachine: {}\n"), ""},
		{"machine.create", machine("cloud_init", "#cloud-config\nruncmd: [a]\nruncmd: [b]\n"), "only the last value has an effect"},
		{"machine.create", withEnv("{\"ignition\": {\"version\": \"3.0.0\"}}"), "env has no effect: only cloud-init"},
		{"machine.create", withEnv("machine:\n  type: worker\n"), "env has no effect"},
		{"machine.create", withEnv("\n#!/bin/sh\n"), ""},
		{"machine.create", withEnv("Content-Type: text/x-shellscript\nMIME-Version: 1.0\n\n#!/bin/sh\n"), ""},
		{"machine.create", withEnv(""), ""},
		{"machine.create", withEnv(Unknown{}), ""},
		{"container.create", withLogin("ghcr.io/team/web:1", "ci"), ""},
		{"container.create", withLogin(Unknown{}, "ci"), ""},
		{"container.create", withLogin("web", "ci"), "login has no effect: image is not a reference"},
		{"container.create", withLogin("ghcr.io/team/web:1", "ci:x"), "login.user must be the name of an account on one line, without colons"},
		{"machine.create", machine("cmdline", "quiet"), "cmdline has no effect without kernel"},
		{"machine.create", machine("initramfs", "start"), "initramfs has no effect without kernel"},
		{"machine.create", machine("cmdline", ""), ""},
		{"machine.create", machine("disks", []any{handle(1), handle(1)}), "disks[1] must differ from disks[0]"},
		{"machine.create", machine("disks", []any{handle(1), Unknown{}, Unknown{}}), ""},
		{"machine.create", machine("networks", []any{handle(2), handle(2)}), "networks[1] must differ from networks[0]"},
		{"machine.create", machine("env", map[string]any{"A": "a#b"}), `env.A must be one line of text without #, not "a#b"`},
		{"container.create", map[string]any{"image": "web", "command": []any{""}}, `command[0] must be a program such as /usr/bin/env, not "": it names no program`},
		{"container.create", map[string]any{"image": "web", "command": []any{"redis-server", "--save", ""}}, ""},
		{"container.exec", map[string]any{"command": []any{" ", "a"}}, "command[0] must be a program such as /usr/bin/env"},
		{"container.create", map[string]any{"image": "web", "volumes": []any{mount("/proc/a")}}, `volumes[0].path must be an absolute path such as /data, without . and .., not "/proc/a": it contains files`},
		{"container.create", map[string]any{"image": "web", "volumes": []any{mount("/a"), mount("/b"), mount("/a")}}, "volumes[2] must differ from volumes[0]"},
		{"container.create", map[string]any{"image": "web", "volumes": []any{mount("/a"), mount(Unknown{}), mount(Unknown{})}}, ""},
		{"network.allow", map[string]any{"rules": []any{map[string]any{"from": []any{"169.254.0.0/16"}}}}, `rules[0].from[0] must be a source address range like 10.1.0.0/24 or 400::/7, host bits zero, not "169.254.0.0/16": packets of link-local`},
		{"network.allow", map[string]any{"rules": []any{map[string]any{"protocol": "icmp", "ports": []any{int64(8)}}}}, "rules[0].ports has no effect with protocol icmp"},
		{"image.fetch", map[string]any{"url": "https://example.com/a", "sha256": emptyFile}, "this is the SHA-256 of an empty file"},
	} {
		problems := operation(t, tt.operation).Args.Check(tt.args, seqOf)
		switch {
		case tt.want == "" && len(problems) > 0:
			t.Errorf("%s %v: %v, want no problem", tt.operation, tt.args, problems)
		case tt.want != "" && (len(problems) != 1 || !strings.Contains(problems[0].String(), tt.want)):
			t.Errorf("%s %v: %v, want %q", tt.operation, tt.args, problems, tt.want)
		}
	}
}

// Old records of drivers contain values that are rejected today. A driver that could not read one would lose its
// resource.
func TestDecodeReadsUselessValuesOfRecords(t *testing.T) {
	network := writ.Ref{Kind: writ.KindNetwork, Name: "front", UID: "u2"}
	got, err := operation(t, "machine.create").Decode(map[string]any{
		"cpus": int64(1), "memory_mib": int64(512), "cmdline": `a="`, "ssh_keys": []any{"ssh-dss AAAA"}, "networks": []any{network, network},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &MachineCreate{CPUs: 1, MemoryMiB: 512, Cmdline: `a="`, SSHKeys: []string{"ssh-dss AAAA"}, Networks: []writ.Ref{network, network}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := operation(t, "image.fetch").Decode(map[string]any{"url": "https://example.com/images/#a", "sha256": emptyFile}); err != nil {
		t.Error(err)
	}
}
