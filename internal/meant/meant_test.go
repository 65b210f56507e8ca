package meant

import "testing"

func TestClosestFindsTheNearestName(t *testing.T) {
	t.Parallel()
	fields := []string{"cpus", "memory_mib", "disks", "networks", "image", "kernel", "cmdline", "initramfs", "cloud_init", "ssh_keys", "env"}
	for name, want := range map[string]string{
		"memory": "memory_mib", "cpu": "cpus", "disk": "disks", "sshkeys": "ssh_keys", "cmd_line": "cmdline", "CPUS": "cpus", "evn": "env", "flavour": "", "x": "",
	} {
		if got := Closest(name, fields); got != want {
			t.Errorf("Closest(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestHintAsksBeforeItsSentence(t *testing.T) {
	t.Parallel()
	names := []string{"amsterdam", "berlin"}
	for word, want := range map[string]string{
		"berln": `did you mean "berlin"? a list shows them`, "paris": "a list shows them", "": "a list shows them",
	} {
		if got := Among(word, names, func(n string) string { return n }, "a list shows them"); got != want {
			t.Errorf("for %q: %q, want %q", word, got, want)
		}
	}
}
