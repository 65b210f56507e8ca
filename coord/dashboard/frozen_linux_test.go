package dashboard_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

const servesFor = "WRIT_TEST_SERVES_FOR"

// TestHelperProcess is the process that TestFrozenCoordinatorIsShown starts. It serves pages until its
// input ends.
func TestHelperProcess(t *testing.T) {
	if os.Getenv(servesFor) == "" {
		return
	}
	w := open(t)
	fill(w)
	fmt.Printf("\nserves %s\n", w.url)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// A stopped coordinator keeps its connections: a page must detect the silence itself.
//
// Promise: Operation: A dashboard page shows within 10 s that its coordinator is frozen or disconnected, and
// continues when the coordinator returns.
// How: Each stream sends a sign of life every 2 s; a page without one for 8 s shows the time of the last.
// Also: TestQuietStreamSendsHeartbeats.
func TestFrozenCoordinatorIsShown(t *testing.T) {
	t.Parallel()
	tab := browse(t)
	process := exec.Command(os.Args[0], "-test.run=^TestHelperProcess$")
	process.Env = append(os.Environ(), servesFor+"="+t.Name())
	in, err := process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	signal := func(s syscall.Signal) {
		if err := process.Process.Signal(s); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() {
		signal(syscall.SIGCONT)
		in.Close()
		_, _ = io.Copy(io.Discard, out)
		if err := process.Wait(); err != nil {
			t.Error(err)
		}
	})
	url := ""
	for lines := bufio.NewReader(out); url == ""; {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		url, _ = strings.CutPrefix(strings.TrimSpace(line), "serves ")
		if !strings.HasPrefix(url, "http") {
			url = ""
		}
	}
	const (
		frozen = `document.getElementById("live").dataset.state === "lost" && /^no news since .*\d/.test(document.querySelector("#live .word").textContent)`
		quiet  = `new Promise((done) => setTimeout(() => done(document.getElementById("live").dataset.state === "on"), 9000))`
	)
	do(t, tab, chromedp.Navigate(url+"/"), until(live))
	if still, err := chromedp.Run(tab, chromedp.Evaluate[bool](quiet, chromedp.EvalAwaitPromise)); err != nil || !still {
		t.Errorf("idle coordinator: live = %v, %v", still, err)
	}
	signal(syscall.SIGSTOP)
	began := time.Now()
	do(t, tab, until(frozen))
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it is shown after %s", took)
	} else {
		t.Logf("it is shown after %s", took)
	}
	signal(syscall.SIGCONT)
	do(t, tab, until(live))
}
