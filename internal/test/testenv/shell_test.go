package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestProgramsOfALineAreFound(t *testing.T) {
	for line, want := range map[string][]string{
		"ip link delete br0":                           {"ip"},
		"nft 'flush chain a b; delete chain a b'":      {"nft"},
		"umount -l /a; rm /a":                          {"umount", "rm"},
		"ls | jq . && btrfs subvolume delete /x || ip": {"ls", "jq", "btrfs", "ip"},
		`"my tool" x & rm 'a;b'`:                       {"my tool", "rm"},
		"jq . 2>&1 | ip 2>&- & nft":                    {"jq", "ip", "nft"},
		"":                                             nil,
	} {
		if got := programsOf(line); !slices.Equal(got, want) {
			t.Errorf("programsOf(%q) = %q, want %q", line, got, want)
		}
	}
}

// A machine without nft skips the test that needs it, with the package to install.
func TestShellAsksForItsPrograms(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(sh, filepath.Join(bin, "sh")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	t.Setenv(RequireVar, "")
	skips := filepath.Join(t.TempDir(), "skips")
	t.Setenv(SkipsVar, skips)
	t.Run("missing", func(t *testing.T) { Shell(t, "kill -0 $$; chromium --version") })
	text, err := os.ReadFile(skips)
	if err != nil || !strings.Contains(string(text), "apt-get install -y chromium") {
		t.Errorf("the list of skips is %q, %v", text, err)
	}
}
