package boot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"writ"
	"writ/efi/progress"
	"writ/internal/outbound"
	"writ/internal/test/testenv"
)

// bootServer is a fake boot server that records accepted reports.
type bootServer struct {
	mu     sync.Mutex
	answer func() (int, error)
	took   []progress.Report
	asked  int
}

func (s *bootServer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	status, err := s.answer()
	if err != nil {
		return nil, err
	}
	var report progress.Report
	text, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	if status == http.StatusNoContent {
		s.took = append(s.took, report)
	}
	return &http.Response{StatusCode: status, Body: http.NoBody, Header: http.Header{}}, err
}

func (s *bootServer) stages() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := ""
	for _, r := range s.took {
		text += r.Stage + " "
	}
	return strings.TrimSpace(text)
}

func (s *bootServer) becomes(status int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = func() (int, error) { return status, err }
}

// Reports made before the network is up are sent later in order, even if the boot server starts late. No stage waits
// for this.
//
// Promise: Machines from an image: An unreachable boot server delays no start and delays a shutdown by two seconds at
// most; it receives no token and no fingerprint.
// How: Reports wait in a queue of 32, and secrets are removed.
// Also: TestUnreachableBootServerBarelyDelaysTheEnd, TestTheFirstProcessPreparesAMachine.
func TestStagesAreReportedToABootServerWithoutWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := new(bootServer)
		server.becomes(0, errors.New("no route"))
		r := newReports(func(line string) string { return strings.ReplaceAll(line, "canary", "(redacted)") })
		c := &consoles{since: func() time.Duration { return 0 }, told: r.add}
		began := time.Now()
		c.Stage("start", "a canary \x1b[2J%s", strings.Repeat("x", 1_000))
		c.Fail("data", errors.Join(writ.Errorf(writ.CodeNotFound, "no disk").WithHint("attach one"), fmt.Errorf("nor another")))
		ctx, stop := context.WithCancel(t.Context())
		go r.run(ctx, server, "http://192.0.2.1/boot/report/52-54-00-77-00-50")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if server.asked > 30 || time.Since(began) != 10*time.Minute {
			t.Errorf("%d requests to an unreachable boot server in %s", server.asked, time.Since(began))
		}
		server.becomes(http.StatusTooManyRequests, nil)
		time.Sleep(time.Minute)
		server.becomes(http.StatusNoContent, nil)
		time.Sleep(time.Minute)
		c.Stage(progress.StageClock, "right")
		c.Stage(progress.StageRunner, "started")
		c.Stage(progress.StageNetwork, "eth0 has another lease")
		c.Fail(progress.StageClock, errors.New("no answer"))
		c.report(progress.Report{Stage: progress.StageJoined, Node: "n1"})
		time.Sleep(time.Second)
		if got, want := server.stages(), "start data data clock runner joined"; got != want {
			t.Errorf("reported stages = %s, want %s", got, want)
		}
		synctest.Wait()
		if first := server.took[0].Text; !strings.HasPrefix(first, "a (redacted)  [2Jxxx") || len(first) > progress.MaxText {
			t.Errorf("the first text is %q", first)
		}
		if failed := server.took[1]; !failed.Failed || failed.Text != "no disk" {
			t.Errorf("the fault is %+v", failed)
		}
		server.becomes(http.StatusBadRequest, nil) // a rejected report is not retried
		c.Stage(progress.StageRunner, "of another version")
		time.Sleep(time.Second)
		server.becomes(http.StatusNoContent, nil)
		c.Stage(progress.StageOff, "shutdown requested")
		r.end(stop)
		if got := server.stages(); !strings.HasSuffix(got, "joined off") {
			t.Errorf("stages at the end = %s", got)
		}
		stop()
	})
}

// Each report contains the digest of the settings, even a report made before the settings were read.
func TestReportsContainTheSettingsDigest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := new(bootServer)
		server.becomes(http.StatusNoContent, nil)
		r := newReports(func(line string) string { return line })
		r.add(progress.Report{Stage: progress.StageStart})
		r.started("quiet writ.name=n1\n")
		ctx, stop := context.WithCancel(t.Context())
		go r.run(ctx, server, "http://192.0.2.1/")
		r.add(progress.Report{Stage: progress.StageNetwork})
		synctest.Wait()
		r.end(stop)
		want := progress.SettingsOf("writ.name=n1")
		if len(server.took) != 2 || server.took[0].Settings != want || server.took[1].Settings != want || !server.took[0].Valid() {
			t.Errorf("reports = %+v, want settings %s", server.took, want)
		}
	})
}

func TestUnreachableBootServerBarelyDelaysTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := new(bootServer)
		server.becomes(0, errors.New("no route"))
		r := newReports(func(line string) string { return line })
		for range 1_000 {
			r.add(progress.Report{Stage: "data", Text: "no disk"})
		}
		if len(r.waiting) != reportsWaiting {
			t.Errorf("%d reports wait", len(r.waiting))
		}
		ctx, stop := context.WithCancel(t.Context())
		go r.run(ctx, server, "http://192.0.2.1/")
		time.Sleep(time.Minute)
		began := time.Now()
		r.end(stop)
		if took := time.Since(began); took > reportEnd {
			t.Errorf("the end takes %s", took)
		}
	})
}

func TestProtocolSwitchHoldsNoReport(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	testenv.SwitchingServer(t, l)
	client := reportClient(&http.Transport{DisableKeepAlives: true})
	err = testenv.End(t, func() error {
		_, err := post(t.Context(), client, "http://"+l.Addr().String(), progress.Report{})
		return err
	})
	if !errors.Is(err, outbound.ErrSwitched) {
		t.Errorf("%v", err)
	}
}
