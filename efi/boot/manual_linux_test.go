package boot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"writ/efi/progress"
)

// The table of waits in the manual has the limits of the code.
func TestTheManualHasTheLimits(t *testing.T) {
	text, err := os.ReadFile("../../docs/manual/boot.md")
	if err != nil {
		t.Fatal(err)
	}
	oneServer := (&clock{servers: []string{"10.77.0.1"}, now: func() time.Time { return clockFrom }}).limit()
	for _, tt := range []struct {
		stage string
		limit progress.Limit
	}{
		{progress.StageModules, modulesLimit}, {"data", diskLimit}, {"data", mkfsLimit}, {"network", askLimit}, {"network", otherCards}, {"service", readyLimit}, {"runner", joinLimit},
		{"clock", (&clock{now: func() time.Time { return time.Time{} }}).limit()}, {"joined", approvalLimit}, {"off", endLimit}, {"off", offLimit},
		{"clock", oneServer}, {"runner", progress.Limit{Most: heldPause, Then: runnerAgain}},
	} {
		want := "none: " + tt.limit.Then
		if tt.limit.Most > 0 {
			want = fmt.Sprintf("%.0f s.*, then %s", tt.limit.Most.Seconds(), regexp.QuoteMeta(tt.limit.Then))
		}
		if !regexp.MustCompile("(?m)^\\| `" + tt.stage + "` \\| .* \\| .*" + want).Match(text) {
			t.Errorf("the manual does not say of %s: %s", tt.stage, want)
		}
	}
}

// The manual quotes the message of each fault.
func TestTheManualHasTheWordsOfEachFault(t *testing.T) {
	text, err := os.ReadFile("../../docs/manual/boot.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## What can go wrong")
	table, _, _ = strings.Cut(table, "\n#")
	var words []*regexp.Regexp
	for line := range strings.Lines(table) {
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		for _, found := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[0], -1) {
			parts := strings.Split(found[1], "…")
			for i := range parts {
				parts[i] = regexp.QuoteMeta(parts[i])
			}
			words = append(words, regexp.MustCompile(strings.Join(parts, ".+")))
		}
	}
	p := &probe{nameservers: func() []string { return []string{"192.0.2.53"} }}
	fails := func(lookUp, dial error) error {
		p.lookUp = func(context.Context, string) ([]string, error) { return []string{"192.0.2.1"}, lookUp }
		p.dial = func(context.Context, string, string) (net.Conn, error) { return nil, dial }
		return p.servers(t.Context(), []string{"https://sup.example.org:7441"}, "rediss://192.0.2.2")
	}
	all := []error{
		checkClock(time.Time{}), noTime(errors.New("x"), true), noDisk("data", "", nil), noDisk("data", "xfs on /dev/vda", nil), foreign([]string{"photo"}, "node"),
		panics{Reason: panicWords + ": x", Times: 1}.trouble(), panics{Times: heldFrom}.trouble(), panics{Times: stillFrom}.trouble(), panics{}.afterReset().trouble(), panics{}.afterReset().afterReset().trouble(),
		otherNode("n1", "n2"), full("/dev/vda", 0, 1<<30), new(Config).Read("writ.nothing=1"), (&Config{Supervisors: []string{"x"}, Redis: "x"}).Missing(false),
		addressless{waits: new(network).String()}.trouble(), addressless{lacks: "the network card 8086:100e (0000:00:02.0) has no driver"}.trouble(),
		addressless{lacks: "the image lacks the firmware x.fw"}.trouble(), addressless{cards: 1, bare: 1, waits: "eth0 (52:54:00:77:00:50) " + noCarrier}.trouble(),
		addressless{cards: 1, unmatched: "no card matches writ.interface=eth7"}.trouble(),
		fails(nil, syscall.ECONNREFUSED), fails(nil, context.DeadlineExceeded), fails(&net.DNSError{IsTimeout: true}, syscall.ECONNREFUSED), fails(&net.DNSError{IsNotFound: true}, syscall.ECONNREFUSED),
	}
	p.nameservers = func() []string { return nil }
	all = append(all, fails(&net.DNSError{IsNotFound: true}, syscall.ECONNREFUSED))
	for _, joined := range all {
		for _, err := range each(joined) {
			known := false
			for _, w := range words {
				known = known || w.MatchString(err.Error())
			}
			if !known {
				t.Errorf("no row of the manual has the words of %q", err)
			}
		}
	}
	if len(words) < 25 {
		t.Errorf("the table has %d rows with words", len(words))
	}
}
