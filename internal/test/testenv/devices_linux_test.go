package testenv

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Root can open every device. The users of machines need the right mode.
func TestGuestsOfOthersNeedMoreThanRootsKVM(t *testing.T) {
	device := filepath.Join(t.TempDir(), "kvm")
	if err := os.WriteFile(device, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(device, -1, 0); err != nil {
		t.Skipf("only root makes files of root's group: %v", err)
	}
	for mode, open := range map[os.FileMode]bool{0o600: false, 0o660: false, 0o644: false, 0o666: true} {
		if err := os.Chmod(device, mode); err != nil {
			t.Fatal(err)
		}
		text := lacksKVM(device, 1)
		if (text == "") != open || !open && !strings.Contains(text, "chmod 666 "+device) {
			t.Errorf("%o: %q", mode, text)
		}
	}
	if text := lacksKVM(device, 0); text != "" {
		t.Errorf("for root: %s", text)
	}
	if err := os.Chmod(device, 0o660); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(device, -1, 1); err != nil {
		t.Fatal(err)
	}
	if text := lacksKVM(device, 1); text != "" {
		t.Errorf("of another group: %s", text)
	}
}
