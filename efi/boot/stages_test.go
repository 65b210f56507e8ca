package boot

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"writ"
	"writ/efi/progress"
)

// starts takes the machine to its network stage.
func (p *paged) starts(c Config, services ...Service) {
	p.wait(2 * time.Second) // of the kernel
	p.Stage(progress.StageStart, "writ v1.0.0 on Linux 6.1.0-56-cloud-amd64")
	p.changeStages(func(s *stages) { s.plan(c.stages(services)) })
	p.wait(400 * time.Millisecond)
	p.Stage(progress.StageModules, "22 loaded")
	p.Stage(progress.StageWatchdog, "Software Watchdog restarts the machine if it hangs for 60 s")
	p.Stage(progress.StageData, "/dev/vda, btrfs with the label writ-data")
}

var usualConfig = Config{Supervisors: []string{"https://10.77.0.3:7441"}, TimeServers: []string{"10.77.0.1"}, Data: "writ-data"}

// Promise: Machines from an image: A start of more than 3 s shows all of its stages, and the current one with its
// age, limit and consequence.
// How: The waiting code and the page read the limit from one value; a wait without a limit gives a reason.
// Also: TestSlowRegistrationIsOnThePage, TestTheLongestPageFitsOnAScreen,
// TestAStageThatFailedAndIsOverIsOnThePage, TestStagesOfAStartAreShownAgainWithTheirAge,
// TestCardsWithACableComeFirstOnThePage, TestDHCPIsTriedForTheTimeOnThePage,
// TestHeldRunnerRestartsAtTheTimeOnThePage, TestServiceIsAwaitedForTheTimeOnThePage,
// TestTimeServersAreAwaitedForTheTimeOnThePage, TestImplausibleClockWaitsWithoutLimitAndThePageSaysWhy,
// TestTheManualHasTheLimits, TestTheFirstProcessPreparesAMachine.
func TestThePageOfAStartHasEachStageWithItsAgeAndItsLimit(t *testing.T) {
	onScreen(t, func(p *paged) {
		// The time after p.starts; the page reads it from another goroutine.
		asked := time.Now().Add(2400 * time.Millisecond)
		p.cards = func() []progress.Wait {
			return []progress.Wait{
				{Text: "eth0 (52:54:00:77:00:50) asks for an address by DHCP", Limit: progress.Limit{Most: 15 * time.Second, Then: "it asks again"}, Since: asked},
				{Text: "eth0 receives no IPv6 router advertisement", Limit: progress.Limit{Then: "the first address of any card counts"}, Since: asked},
			}
		}
		p.starts(usualConfig, Service{Name: "containerd"}, Service{Name: "mycelium"})
		p.wait(startQuiet)
		p.want(0, `
  This machine is starting and is not a node yet.

       stage    from s  for s
  done start       0.0    2.0  writ v1.0.0 on Linux 6.1.0-56-cloud-amd64
  done modules     2.0    0.4  22 loaded
  done watchdog    2.4    0.0  Software Watchdog restarts the machine if it...
  done data        2.4    0.0  /dev/vda, btrfs with the label writ-data
  now  network     2.4    3.0  eth0 (52:54:00:77:00:50) asks for an address by
                               DHCP: 3 s of 15 s, then it asks again
                               eth0 receives no IPv6 router advertisement: no
                               limit, the first address of any card counts
  next clock                   asks for the time: 10.77.0.1
  next service                 containerd, mycelium
  next runner                  asks to join: https://10.77.0.3:7441
  next joined                  serves, or waits until an admin approves it
`)
		p.wait(startEvery)
		p.want(0, "  now  network     2.4   33.0  eth0", "DHCP: 15 s of 15 s, then it asks again\n")
		p.Stage(progress.StageNetwork, "eth0 10.77.0.50/24, by DHCP")
		p.wait(startQuiet)
		p.want(0, "  done network     2.4   33.0  eth0 10.77.0.50/24, by DHCP\n  now  clock      35.4    3.0  asks for the time: 10.77.0.1\n  next service")
	})
}

// After the runner has started, the page shows the stages until the runner reports more.
func TestSlowRegistrationIsOnThePage(t *testing.T) {
	onScreen(t, func(p *paged) {
		p.starts(usualConfig, Service{Name: "containerd"})
		p.Stage(progress.StageNetwork, "eth0 10.77.0.50/24")
		p.Stage(progress.StageClock, "2026-11-26T04:52:51Z")
		p.begin()
		p.says("a line of the runner", startQuiet)
		p.want(0, "a line of the runner\n", "  done clock       2.4    0.0  2026-11-26T04:52:51Z\n  done service                 containerd\n"+
			"  now  runner      2.4    3.0  asks its supervisor to join: no limit, it asks\n                               until the supervisor answers\n  next joined ")
		p.is(Admission{State: writ.AdmissionPending, Name: "n1", Fingerprint: "SHA256:abc"})
		p.says("waiting", quiet)
		p.want(1, "This machine waits for approval as a node.\n", "    waits        since 5 s after its start: no limit, an admin decides\n")
		p.wait(time.Minute)
		p.is(Admission{State: writ.AdmissionApproved, Name: "n1"})
		p.says("serving", quiet, joins)
		p.want(1, "    started      in 66.4 s: start 2.0, modules 0.4, watchdog 0.0, data 0.0,\n                 network 0.0, clock 0.0, runner 3.0, joined 61.0\n")
		p.wait(time.Hour)
		if shown := p.shows(); strings.Contains(shown, "This machine starts") {
			t.Errorf("a node that serves shows\n%s", shown)
		}
	})
}

// The page of a held machine fits on one screen: finished stages, the held stage, reason, remedy and next stages.
func TestTheLongestPageFitsOnAScreen(t *testing.T) {
	onScreen(t, func(p *paged) {
		p.starts(usualConfig, Service{Name: "containerd"})
		p.Stage(progress.StageNetwork, "%s", strings.Repeat("eth0 10.77.0.50/24, by DHCP ", 9))
		long := writ.Errorf(writ.CodeNotFound, "%s", strings.Repeat("no time server tells the time, ", 12)).WithHint("%s", strings.Repeat("name another one, ", 18))
		p.reporter().Waits(progress.StageClock, strings.Repeat("asks for the time ", 20), progress.Limit{Most: 13 * time.Second, Then: "the start continues with the hardware clock"})
		for range 2 {
			p.failed(progress.Failure(progress.StageClock, long), "it asks every 30s, and goes on when one of them has told the time")
		}
		shown := p.shows()
		_, page, _ := strings.Cut(shown, "\n\n")
		if lines := strings.Count(page, "\n"); lines > pageLines {
			t.Errorf("the page has %d lines:\n%s", lines, page)
		}
		for _, want := range []string{"  done start, modules, watchdog, data, network\n", "  held clock ", "\n  next service, runner, joined\n", "  trouble ", "  next        ", "  goes on "} {
			if !strings.Contains(page, want) {
				t.Errorf("the page has no %q:\n%s", want, page)
			}
		}
		p.want(0)
	})
}

// A failed stage that does not stop the start stays on the page and does not count as the current stage.
func TestAStageThatFailedAndIsOverIsOnThePage(t *testing.T) {
	onScreen(t, func(p *paged) {
		p.Stage(progress.StageStart, "writ v1.0.0")
		p.Fail(progress.StageConfig, errors.New("unknown setting writ.nothing"))
		p.changeStages(func(s *stages) { s.plan(usualConfig.stages(nil)) })
		p.Stage(progress.StageModules, "22 loaded")
		p.Stage(progress.StageWatchdog, "none")
		p.Fail(progress.StageNetwork, errors.New("no address yet"))
		p.Stage(progress.StageNetwork, "eth0 10.77.0.50/24") // a stage that the start needs first
		p.Fail(progress.StageNetwork, errors.New("eth1 cannot have its MTU"))
		p.wait(startQuiet)
		p.want(0, "  done start ", "  fail config                  error: unknown setting writ.nothing\n", "  done network     0.0    0.0  error: eth1 cannot have its MTU\n", "  now  clock ")
	})
}

// The stages are in the order of the machine. With a boot server, the network is first.
func TestTheStagesOfAStartHaveAnOrder(t *testing.T) {
	if got := StagesOf("", nil); !slices.Equal(got, []string{"start", "modules", "watchdog", "data", "network", "clock", "runner", "joined"}) {
		t.Errorf("a machine goes through %q", got)
	}
	if got := StagesOf("writ.boot=http://10.77.0.1/boot/report/52-54-00-77-00-50", []Service{{}}); !slices.Equal(got, []string{"start", "modules", "watchdog", "network", "data", "clock", "service", "runner", "joined"}) {
		t.Errorf("with a boot server it goes through %q", got)
	}
}

// StagesOf returns the stage names of a start with these settings, for the test with a machine.
func StagesOf(settings string, services []Service) (names []string) {
	var c Config
	_ = c.Read(settings) // the machine also reads it
	for _, s := range c.stages(services) {
		names = append(names, s.stage)
	}
	return names
}

func TestTextsAreFoldedBetweenWords(t *testing.T) {
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"", []string{""}},
		{"four five", []string{"four", "five"}},
		{"four fives", []string{"four", "fives"}},
		{"a bc def", []string{"a bc", "def"}},
		{"sevenfold", []string{"seven", "fold"}},
		{"a\nb", []string{"a", "b"}},
		{"ä ö ü é è", []string{"ä ö ü", "é è"}},
	} {
		if got := fold(tt.text, 5); !slices.Equal(got, tt.want) {
			t.Errorf("%q is folded to %q, want %q", tt.text, got, tt.want)
		}
	}
	if got := foldAtMost("a bc def ghi", 5, 2); !slices.Equal(got, []string{"a bc", "de..."}) {
		t.Errorf("a text of three lines is shown as %q", got)
	}
}
