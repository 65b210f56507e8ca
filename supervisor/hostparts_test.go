package supervisor_test

import (
	"strings"
	"testing"

	"writ"
)

// Promise: Plans, scripts and manuals: A container with `init` goes to a node with an init program. If no node has one,
// the plan and the run refuse it.
// How: Nodes report whether they have one; each node checks again.
// Also: TestNodeWithoutInitProgramRefuses.
func TestInitChoosesTheNode(t *testing.T) {
	script := func(name, fields string) string {
		return previewModules + `container.create("` + name + `", {
	image: image.fetch("i-` + name + `", {url: "https://images.example/i", sha256: "` + strings.Repeat("a", 64) + `", format: "oci"})` + fields + `
}).state
`
	}
	inSim(t, func(t *testing.T, s *sim) {
		real := func(init bool) func(n *realNode) {
			return func(n *realNode) {
				n.about = func(d *writ.NodeDriver) { d.Simulated, d.Init = false, init && d.Module == "container" }
			}
		}
		s.realNode("n1", real(false))
		with := s.realNode("n2", real(true))
		onNode := func(text, want string) {
			t.Helper()
			_, calls := s.wantState(s.submit(text), writ.RunSucceeded)
			for _, c := range calls {
				if c.NodeName != want {
					t.Errorf("%s is on %s, want %s", c.Operation, c.NodeName, want)
				}
			}
		}
		onNode(script("plain", ""), "n1")
		onNode(script("web", ", init: true"), "n2")

		refused := func(text, says string) {
			t.Helper()
			preview := s.preview(s.payload(text))
			var found *writ.Error
			for _, c := range preview.Calls {
				if c.Error != nil && c.Error.Code == writ.CodeNoCapacity {
					found = c.Error
				}
			}
			if found == nil || !strings.Contains(found.Message, says) || found.Hint == "" {
				t.Errorf("planned as %v: %v", previewLines(preview), found)
			}
			run, _ := s.wantState(s.submit(text), writ.RunFailed)
			if e := run.Failure.Error; e.Code != writ.CodeNoCapacity || !strings.Contains(e.Message, says) || e.Hint == "" {
				t.Errorf("failure = %+v", run.Failure)
			}
		}
		refused(script("plain", ", init: true"), "n1 has no init program for containers") // it stays on n1
		with.halt()
		with.about = func(d *writ.NodeDriver) { d.Simulated = false }
		with.start()
		refused(script("other", ", init: true"), "n1, n2: each has no init program for containers")
		s.wantState(s.submit(script("web", ", init: true")), writ.RunSucceeded) // it has one
	})
}

// Promise: Plans, scripts and manuals: A container with `devices` goes to a node that offers all of them. If no node does, the plan and
// the run refuse it and name the devices of each node.
// How: Nodes report the devices that exist; each node checks again.
// Also: TestOtherDeviceIsRefused.
func TestDevicesChooseTheNode(t *testing.T) {
	script := func(name, operation, devices string) string {
		return previewModules + `container.` + operation + `("` + name + `", {
	image: image.fetch("i-` + name + `", {url: "https://images.example/i", sha256: "` + strings.Repeat("a", 64) + `", format: "oci"}), devices: [` + devices + `]
}).name
`
	}
	inSim(t, func(t *testing.T, s *sim) {
		offers := func(devices ...string) func(n *realNode) { return func(n *realNode) { n.devices = devices } }
		s.realNode("n1", offers("tpm"))
		s.realNode("n2", offers("kvm", "tpm"))
		for _, operation := range []string{"create", "run"} {
			_, calls := s.wantState(s.submit(script("web-"+operation, operation, `"kvm", "tpm"`)), writ.RunSucceeded)
			for _, c := range calls {
				if c.NodeName != "n2" {
					t.Errorf("%s is on %s", c.Operation, c.NodeName)
				}
			}
		}
		s.wantState(s.submit(script("old", "create", "")), writ.RunSucceeded) // on n1, which is not busier
		for text, says := range map[string]string{
			script("other", "create", `"kvm", "ttyUSB0"`): "n1: does not offer the devices kvm, ttyUSB0, it offers tpm; n2: does not offer the device ttyUSB0, it offers kvm, tpm",
			script("other", "run", `"ttyUSB0"`):           "it offers kvm, tpm",
			script("old", "create", `"kvm"`):              "n1 does not offer the device kvm, it offers tpm", // it stays on its node
		} {
			preview := s.preview(s.payload(text))
			var found *writ.Error
			for _, c := range preview.Calls {
				if c.Error != nil && c.Error.Code == writ.CodeDeviceForbidden {
					found = c.Error
				}
			}
			if found == nil || !strings.Contains(found.Message, says) || !strings.Contains(found.Hint, "--device") {
				t.Errorf("it is planned as %v: %v, want %q", previewLines(preview), found, says)
			}
			run, _ := s.wantState(s.submit(text), writ.RunFailed)
			if e := run.Failure.Error; e.Code != writ.CodeDeviceForbidden || !strings.Contains(e.Message, says) {
				t.Errorf("it ends with %+v, want %q", run.Failure, says)
			}
		}
	})
}
