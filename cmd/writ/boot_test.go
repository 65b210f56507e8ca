package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"debug/pe"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"writ"
	"writ/cmd/writ/internal/test/testcluster"
	"writ/efi/bootserver"
	stages "writ/efi/progress"
)

// imageOf returns a minimal unified kernel image: a dummy kernel and a command line.
func imageOf(t *testing.T, cmdline string) []byte {
	t.Helper()
	const headers = 20 + 2*40
	kernel := bytes.Repeat([]byte("no kernel "), 100_000)
	sections := []pe.SectionHeader32{
		{Name: [8]uint8([]byte(".linux\x00\x00")), VirtualSize: uint32(len(kernel)), SizeOfRawData: uint32(len(kernel)), PointerToRawData: headers},
		{Name: [8]uint8([]byte(".cmdline")), VirtualSize: uint32(len(cmdline)), SizeOfRawData: uint32(len(cmdline)), PointerToRawData: headers + uint32(len(kernel))},
	}
	image, err := binary.Append(nil, binary.LittleEndian, pe.FileHeader{Machine: pe.IMAGE_FILE_MACHINE_AMD64, NumberOfSections: uint16(len(sections))})
	if err == nil {
		image, err = binary.Append(image, binary.LittleEndian, sections)
	}
	if err != nil {
		t.Fatal(err)
	}
	return append(append(image, kernel...), cmdline...)
}

// servedBoot is a `writ boot serve` process.
type servedBoot struct {
	t         *testing.T
	cmd       *exec.Cmd
	url, list string
	said      *bufio.Scanner
}

// serveBoot starts a boot server on loopback and waits until it listens.
func serveBoot(t *testing.T, args ...string) *servedBoot {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &servedBoot{t: t, cmd: exec.Command(own, append([]string{"boot", "serve", "--listen", "127.0.0.1:0", "--list-listen", "127.0.0.1:0"}, args...)...)}
	s.cmd.Args[0] = "writ" // with this name, the test binary runs writ
	log, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.cmd.Process.Kill(); _ = s.cmd.Wait() })
	listening := regexp.MustCompile(`msg="boot server is listening" address=(\S+) .*list=(\S+)`)
	var said []string
	for s.said = bufio.NewScanner(log); s.said.Scan(); {
		said = append(said, s.said.Text())
		if found := listening.FindStringSubmatch(s.said.Text()); found != nil {
			s.url, s.list = "http://"+found[1], found[2]
			return s
		}
	}
	t.Fatalf("it does not listen:\n%s", strings.Join(said, "\n"))
	return nil
}

// awaitStep waits until the only machine in the list has reached a step.
func (s *servedBoot) awaitStep(step string) bootserver.Row {
	s.t.Helper()
	return s.await(step, func(r bootserver.Row) bool { return r.Step == step })
}

// await waits until the only machine in the list satisfies is.
func (s *servedBoot) await(what string, is func(bootserver.Row) bool) bootserver.Row {
	s.t.Helper()
	look := time.NewTicker(200 * time.Millisecond)
	defer look.Stop()
	for late := time.After(testcluster.Patience); ; {
		var list bootserver.List
		if err := json.Unmarshal([]byte(s.writ("boot", "list", "--boot-server", s.list, "-o", "json")), &list); err != nil {
			s.t.Fatal(err)
		}
		if len(list.Machines) == 1 && is(list.Machines[0]) {
			return list.Machines[0]
		}
		select {
		case <-look.C:
		case <-late:
			s.t.Fatalf("no machine has reached %s: %+v", what, list.Machines)
		}
	}
}

// stop ends the server with SIGTERM, and returns its output since it listens.
func (s *servedBoot) stop() string {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	var said []string
	for s.said.Scan() {
		said = append(said, s.said.Text())
	}
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("it ends with %v", err)
	}
	return strings.Join(said, "\n")
}

// writ runs a command that must succeed, and returns its output.
func (s *servedBoot) writ(args ...string) string {
	s.t.Helper()
	cmd := exec.Command(s.cmd.Path, args...)
	cmd.Args[0] = "writ"
	var failed bytes.Buffer
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("%v: %v\n%s", args, err, failed.String())
	}
	return string(out)
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v: %s", url, answer.Status, err, text)
	}
	return string(text)
}

// An image with a token in its command line is for one machine, and no command serves it to a network.
func TestAnImageWithATokenIsNotForANetwork(t *testing.T) {
	file := filepath.Join(t.TempDir(), "node.efi")
	if err := os.WriteFile(file, imageOf(t, "console=ttyS0 writ.join=writ2.canary"), 0o600); err != nil {
		t.Fatal(err)
	}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(own, "boot", "serve", "--listen", "127.0.0.1:0", "--list-listen", "127.0.0.1:0", "--image", file)
	cmd.Args[0] = "writ"
	said, _ := cmd.CombinedOutput() // the exit code is checked
	if cmd.ProcessState.ExitCode() != writ.ExitUsage || !bytes.Contains(said, []byte("has a token")) || bytes.Contains(said, []byte("canary")) {
		t.Errorf("%v: %s", cmd.ProcessState, said)
	}
}

// One command serves a site: a machine gets a script and the image in it, reports to the address in its command line,
// and has a row in the operators' list.
func TestABootServerServesASiteAndListsItsMachines(t *testing.T) {
	file, image := filepath.Join(t.TempDir(), "node.efi"), imageOf(t, "console=ttyS0 quiet")
	if err := os.WriteFile(file, image, 0o600); err != nil {
		t.Fatal(err)
	}
	digest := fmt.Sprintf("%x", sha256.Sum256(image))
	s := serveBoot(t, "--image", file, "--cluster", strings.Repeat("0a", 32), "--supervisor", "https://10.77.0.3:7441")
	if said := s.writ("boot", "list", "--boot-server", s.list, "-o", "name"); said != "" {
		t.Errorf("before a machine asks the list has %q", said)
	}
	script := fetch(t, s.url+"/boot/ipxe?mac=52:54:00:77:00:50&serial=S1")
	line := regexp.MustCompile(`(?m)^kernel (\S+) console=ttyS0 quiet writ\.supervisor=https://10\.77\.0\.3:7441 writ\.cluster=(?:0a){32} writ\.boot=(\S+) \|\| goto failed$`).FindStringSubmatch(script)
	if line == nil || !strings.HasPrefix(line[1], s.url+"/boot/image/writ-node-"+digest+".efi?") {
		t.Fatalf("the script is\n%s", script)
	}
	if got := fetch(t, line[1]); got != string(image) {
		t.Errorf("the image has %d bytes, want %d", len(got), len(image))
	}
	answer, err := http.Post(line[2], "application/json", strings.NewReader(`{"stage":"waits","node":"n1"}`))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()

	for _, want := range []string{"52:54:00:77:00:50", "n1", "waits", "waits for an admin"} {
		if said := s.writ("boot", "list", "--boot-server", s.list); !strings.Contains(said, want) {
			t.Errorf("the list has no %q:\n%s", want, said)
		}
	}
	if said := s.writ("boot", "list", "--boot-server", s.list, "-o", "wide"); !strings.Contains(said, "S1") || !strings.Contains(said, "127.0.0.1") {
		t.Errorf("the wide list is\n%s", said)
	}
	var list bootserver.List
	if said := s.writ("boot", "list", "--boot-server", s.list, "-o", "json"); json.Unmarshal([]byte(said), &list) != nil || list.Image != digest || len(list.Machines) != 1 || list.Machines[0].Sent != int64(len(image)) {
		t.Errorf("the list as JSON is %s", said)
	}
	said := s.stop()
	for _, step := range []string{"script", "sent", "waits"} {
		if !strings.Contains(said, fmt.Sprintf("msg=machine mac=52:54:00:77:00:50 step=%s ", step)) {
			t.Errorf("the log has no step %s:\n%s", step, said)
		}
	}
}

// An operator sets the settings of one machine while the server runs, and the list shows whether the machine uses them.
func TestOneMachineGetsItsOwnSettings(t *testing.T) {
	dir := t.TempDir()
	file, machines := filepath.Join(dir, "node.efi"), filepath.Join(dir, "machines")
	if err := os.WriteFile(file, imageOf(t, "quiet"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serveBoot(t, "--image", file, "--cluster", strings.Repeat("0a", 32), "--machines", machines)
	s.writ("boot", "assign", "52-54-00-77-00-50", "--machines", machines, "--name", "n1", "--setting", "writ.address=10.77.0.4/24", "--setting", "writ.gateway=10.77.0.1")
	s.writ("boot", "assign", "serial=S-2", "--machines", machines, "--name", "n2")
	if said := s.writ("boot", "list", "--boot-server", s.list, "-o", "wide"); !strings.Contains(said, "serial=S-2") || !strings.Contains(said, "no request since") || !strings.Contains(said, "writ.gateway=10.77.0.1") {
		t.Errorf("the list is\n%s", said)
	}
	script := fetch(t, s.url+"/boot/ipxe?mac=52:54:00:77:00:50&serial=S-1")
	cmdline := regexp.MustCompile(`(?m)^kernel \S+ (quiet writ\.cluster=(?:0a){32} writ\.name=n1 writ\.address=10\.77\.0\.4/24 writ\.gateway=10\.77\.0\.1 writ\.boot=(\S+)) \|\| goto failed$`).FindStringSubmatch(script)
	if cmdline == nil {
		t.Fatalf("the script is\n%s", script)
	}
	answer, err := http.Post(cmdline[2], "application/json", strings.NewReader(`{"stage":"start","settings":"`+stages.SettingsOf(cmdline[1])+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if said := s.writ("boot", "list", "--boot-server", s.list); !strings.Contains(said, " used ") {
		t.Errorf("the list is\n%s", said)
	}

	before, err := os.ReadFile(machines)
	if err != nil {
		t.Fatal(err)
	}
	for what, args := range map[string][]string{
		"a token":            {"--setting", "writ.join=writ2.canary"},
		"a password":         {"--redis", "rediss://:canary@10.77.0.3:6379/0"},
		"another password":   {"--setting", "writ.redis=rediss://:canary@10.77.0.3:6379/0"},
		"where it reports":   {"--setting", "writ.boot=http://10.77.0.1/canary"},
		"the name of others": {"--name", "n2"},
		"an unknown setting": {"--setting", "writ.canary=x"},
		"nothing":            nil,
		"both":               {"--none", "--name", "n3"},
	} {
		cmd := exec.Command(s.cmd.Path, append([]string{"boot", "assign", "52:54:00:77:00:50", "--machines", machines}, args...)...)
		cmd.Args[0] = "writ"
		out, err := cmd.CombinedOutput()
		if after, _ := os.ReadFile(machines); cmd.ProcessState.ExitCode() != writ.ExitUsage || string(after) != string(before) || strings.Contains(what, "password") && bytes.Contains(out, []byte("canary")) {
			t.Errorf("%s: %v\n%s\nthe file is\n%s", what, err, out, after)
		}
	}
	// As an editor writes.
	if err := os.WriteFile(machines, []byte("52:54:00:77:00:50 writ.nmae=n1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if script := fetch(t, s.url+"/boot/ipxe?mac=52:54:00:77:00:50&serial=S-1"); !strings.Contains(script, "writ.name=n1 ") {
		t.Errorf("the earlier settings are not in force:\n%s", script)
	}
	cmd := exec.Command(s.cmd.Path, "boot", "list", "--boot-server", s.list)
	cmd.Args[0] = "writ"
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "line 1: unknown setting writ.nmae") {
		t.Errorf("the list is %v\n%s", err, out)
	}
	if err := os.WriteFile(machines, before, 0o600); err != nil {
		t.Fatal(err)
	}
	s.writ("boot", "assign", "52:54:00:77:00:50", "--machines", machines, "--none")
	if script := fetch(t, s.url+"/boot/ipxe?mac=52:54:00:77:00:50&serial=S-1"); strings.Contains(script, "writ.name=") {
		t.Errorf("after its settings were taken away the script is\n%s", script)
	}
	s.stop()
}
