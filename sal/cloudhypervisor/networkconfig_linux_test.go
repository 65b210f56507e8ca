package cloudhypervisor

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"writ/internal/test/testenv"
)

// The real cloud-init writes the files of three network managers for a guest that renames its interfaces.
func TestCloudInitConfiguresEachInterface(t *testing.T) {
	for renderer, want := range map[string][]string{
		"networkd": {
			"MACAddress=02:00:00:00:00:01", "Name=enp0s4", "Name=enp0s5", "MTUBytes=1400", "Address=400:1::2/96", "Address=10.0.0.2/24",
			"Destination=400::/7\n\nGateway=400:1::1", "Destination=0.0.0.0/0\n\nGateway=10.0.0.1", "Destination=400::/6\n\nGateway=400:2::1",
			"Destination=128.0.0.0/1\n\nGateway=10.0.0.1",
			"DNS=192.0.2.53 400:3::53",
		},
		"netplan": {"macaddress: 02:00:00:00:00:02", "- 400:2::2/96", "- 10.1.0.2/24", "via: 400:2::1", "via: 10.1.0.1", "table: 1025", "from: 10.1.0.2/32", "priority: 30003", "- 192.0.2.53"},
		"eni": {
			"iface enp0s4 inet6 static\n    address 400:1::2/96", "address 10.0.0.2/24", "iface enp0s5 inet6 static\n    address 400:2::2/96",
			"route add -A inet6 400::/7 gw 400:1::1", "route add default gw 10.0.0.1",
			"route add -net 0.0.0.0/1 gw 10.0.0.1", "route add -net 128.0.0.0/1 gw 10.0.0.1",
		},
	} {
		t.Run(renderer, func(t *testing.T) {
			text := rendered(t, renderer)
			for _, line := range want {
				if !strings.Contains(text, line) {
					t.Errorf("%q is missing in\n%s", line, text)
				}
			}
		})
	}
}

// rendered returns the files that cloud-init writes for a machine with twoPorts.
func rendered(t *testing.T, renderer string) string {
	t.Helper()
	config := filepath.Join(t.TempDir(), "network-config")
	if err := os.WriteFile(config, networkConfig(twoPorts, false), 0o600); err != nil {
		t.Fatal(err)
	}
	names := `{"02:00:00:00:00:01": "enp0s4", "02:00:00:00:00:02": "enp0s5"}`
	modules := filepath.Dir(filepath.Dir(testenv.Unpacked(t, testenv.CloudInit)))
	text, err := exec.Command(python(t), "testdata/network.py", modules, config, renderer, t.TempDir(), names).Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Fatalf("%v: %s", err, failed.Stderr)
	}
	var files map[string]string
	if err := errors.Join(err, json.Unmarshal(text, &files)); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for name, content := range files {
		all.WriteString("# " + name + "\n" + content)
	}
	return all.String()
}
