package boot

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"writ"
)

func TestServicesThatCannotRunAreRefused(t *testing.T) {
	programs := []string{Program, "/usr/bin/containerd"}
	good := Service{Name: "containerd", Command: []string{"/usr/bin/containerd", "--config", "/etc/c.toml"}, Socket: "/run/containerd/containerd.sock"}
	if err := CheckServices([]Service{good, {Name: "list", Command: []string{Program, "boot", "serve"}}}, programs); err != nil {
		t.Error(err)
	}
	with := func(change func(s *Service)) []Service {
		s := good
		change(&s)
		return []Service{s}
	}
	for says, services := range map[string][]Service{
		`"Containerd"`:       with(func(s *Service) { s.Name = "Containerd" }),
		"name runner":        with(func(s *Service) { s.Name = "runner" }),
		"the name kernel":    with(func(s *Service) { s.Name = "kernel" }),
		`the command ""`:     with(func(s *Service) { s.Command = nil }),
		"no such program":    with(func(s *Service) { s.Command = []string{"containerd"} }),
		"/tmp/c.sock":        with(func(s *Service) { s.Socket = "/tmp/c.sock" }),
		"/run/../c.sock":     with(func(s *Service) { s.Socket = "/run/../c.sock" }),
		"duplicate service":  {good, good},
		"17 services exceed": slices.Repeat([]Service{good}, 17),
	} {
		if err := CheckServices(services, programs); writ.CodeOf(err) != writ.CodeUsage || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, want %q", services, err, says)
		}
	}
}

func TestAnImageMayHaveNoServices(t *testing.T) {
	file := filepath.Join(t.TempDir(), "services.json")
	if all, err := readServices(file); err != nil || all != nil {
		t.Errorf("without the file: %v, %v", all, err)
	}
	if err := os.WriteFile(file, []byte("no list"), 0o600); err != nil {
		t.Fatal(err)
	}
	if all, err := readServices(file); err == nil {
		t.Errorf("invalid file: %v", all)
	}
}

func TestAServiceThatFailsIsOnThePage(t *testing.T) {
	onScreen(t, func(p *paged) {
		p.reporter().service("containerd", "")
		p.reporter().service("mycelium", "")
		p.begin()
		p.is(Admission{State: writ.AdmissionApproved, Name: "n1"})
		p.says("serving", quiet, joins)
		p.want(1, "This machine serves as a node.\n", "    services     containerd runs; mycelium runs\n")
		p.reporter().service("mycelium", "ended with exit code 1: no such card")
		p.wait(quiet)
		p.want(1, "    services     containerd runs; mycelium ended with exit code 1: no such card\n")
		p.reporter().service("mycelium", "")
		p.wait(quiet)
		p.want(1, "    services     containerd runs; mycelium runs\n")
	})
}

func TestAProgramThatEndsAgainAndAgainIsStartedLessOften(t *testing.T) {
	var waits []time.Duration
	wait := time.Duration(0)
	for _, lived := range []time.Duration{0, time.Second, time.Second, time.Second, time.Second, time.Second, time.Second, 2 * wellAfter, 0} {
		wait = pause(wait, lived)
		waits = append(waits, wait/time.Second)
	}
	if want := []time.Duration{1, 2, 4, 8, 16, 30, 30, 1, 2}; !slices.Equal(waits, want) {
		t.Errorf("it is left alone for %d s, want %d", waits, want)
	}
}
