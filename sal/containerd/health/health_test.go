package health

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"writ"
	"writ/sal/catalog"
)

// commands is a container whose program answers each command.
type commands struct {
	ready  error
	answer func(ctx context.Context) (int64, string, error)
	runs   int

	reported []string
}

func (c *commands) Ready(context.Context) error { return c.ready }

func (c *commands) Network(context.Context) (*os.File, error) { return nil, errors.ErrUnsupported }

func (c *commands) Exec(ctx context.Context, _ []string) (int64, string, error) {
	c.runs++
	return c.answer(ctx)
}

func (c *commands) Clean(text string, _ bool) string { return text }

func (c *commands) Report(err error) { c.reported = append(c.reported, err.Error()) }

func exits(code int64) func(context.Context) (int64, string, error) {
	return func(context.Context) (int64, string, error) { return code, "said\n", nil }
}

var check = Check{
	Command: []string{"check"}, Interval: 10 * time.Second, Timeout: 3 * time.Second, Retries: 3, Start: 30 * time.Second,
}

func TestParseChecksItsArguments(t *testing.T) {
	full := func(h catalog.Health) catalog.Health {
		h.IntervalSeconds, h.TimeoutSeconds, h.Retries, h.StartSeconds = 10, 3, 3, 30
		return h
	}
	web := &Check{HTTP: "/", Port: 80, Interval: 10 * time.Second, Timeout: 3 * time.Second, Retries: 3, Start: 30 * time.Second}
	db := *web
	db.HTTP, db.TCP, db.Port = "", true, 5432
	slow := full(catalog.Health{TCP: 80})
	slow.TimeoutSeconds = 11
	busy := full(catalog.Health{Command: []string{"true"}})
	busy.IntervalSeconds = 4
	for name, c := range map[string]struct {
		given catalog.Health
		want  *Check
		why   string
	}{
		"absent":                {catalog.Health{}, nil, ""},
		"http":                  {full(catalog.Health{HTTP: "/", Port: 80}), web, ""},
		"tcp":                   {full(catalog.Health{TCP: 5432}), &db, ""},
		"no kind":               {full(catalog.Health{}), nil, "exactly one"},
		"two kinds":             {full(catalog.Health{TCP: 80, Command: []string{"true"}}), nil, "exactly one"},
		"http without a port":   {full(catalog.Health{HTTP: "/"}), nil, "needs health.port"},
		"timeout over interval": {slow, nil, "at most health.interval_seconds"},
		"command too often":     {busy, nil, "at least 5"},
	} {
		got, err := Parse(c.given)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		if (c.why == "") != (err == nil) || err != nil && (writ.CodeOf(err) != writ.CodeArgumentsInvalid || !strings.Contains(err.Error(), c.why)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestExitCodeDecides(t *testing.T) {
	lost := errors.New("the daemon is away")
	for name, c := range map[string]struct {
		answer func(context.Context) (int64, string, error)
		want   string
	}{
		"success": {exits(0), "<nil>"},
		"failure": {exits(3), `the command ended with exit code 3: "said"`},
		"late": {func(ctx context.Context) (int64, string, error) {
			<-ctx.Done()
			return 0, "", ctx.Err()
		}, "the command did not end within 3s"},
		"unknown": {func(context.Context) (int64, string, error) { return 0, "", lost }, "the daemon is away"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := Probe(t.Context(), &commands{answer: c.answer}, check)
				if got := fmt.Sprint(err); got != c.want {
					t.Errorf("got %s, want %s", got, c.want)
				}
			})
		})
	}
}

func TestLongOutputIsShortened(t *testing.T) {
	answer := func(context.Context) (int64, string, error) { return 1, strings.Repeat("é", 1000) + "\nend\x07", nil }
	err := Probe(t.Context(), &commands{answer: answer}, check)
	f, ok := errors.AsType[*Failure](err)
	if !ok || len(f.Detail) > maxDetail+10 || !strings.HasPrefix(f.Detail, "…é") || !strings.HasSuffix(f.Detail, "é; end ") {
		t.Errorf("got %v", err)
	}
}

func TestWaitEndsWithTheFirstSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := &commands{}
		c.answer = func(context.Context) (int64, string, error) {
			if time.Since(start) < 20*time.Second {
				return 1, "", nil
			}
			return 0, "", nil
		}
		if err := Wait(t.Context(), c, check); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took < 20*time.Second || took > 22*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestWaitGivesUpAfterStartAndRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		c := &commands{answer: exits(3)}
		if f, ok := errors.AsType[*Failure](Wait(t.Context(), c, check)); !ok || f.Detail != "said" {
			t.Errorf("got %v", f)
		}
		took := time.Since(start)
		most := catalog.Health{StartSeconds: 30, Retries: 3, TimeoutSeconds: 3, IntervalSeconds: 10}.Limit()
		if took < 30*time.Second || took > most {
			t.Errorf("it took %s, and %s are announced", took, most)
		}
		if c.runs < 10 || c.runs > 40 {
			t.Errorf("it ran %d commands", c.runs)
		}
		if len(c.reported) != c.runs || c.reported[0] != `the command ended with exit code 3: "said"` {
			t.Errorf("of %d runs, it reported %q", c.runs, c.reported)
		}
	})
}

// Wait returns when a container has been healthy for some time. A failure in that time counts, and starts it again.
func TestWaitLastsUntilItStaysHealthy(t *testing.T) {
	stable := check
	stable.Healthy = time.Minute
	fails := func(at ...[2]int) func(seconds, probe int) bool { // from one second to the other
		return func(seconds, _ int) bool {
			return slices.ContainsFunc(at, func(w [2]int) bool { return w[0] <= seconds && seconds < w[1] })
		}
	}
	for name, c := range map[string]struct {
		fails       func(seconds, probe int) bool
		least, most int // seconds
		want        string
	}{
		"always healthy":     {fails(), 60, 60, ""},
		"an early failure":   {fails([2]int{10, 12}), 72, 75, ""},
		"a counted failure":  {fails([2]int{40, 45}), 105, 112, ""},
		"too late a failure": {fails([2]int{20, 23}, [2]int{69, 82}), 69, 80, "exit code 1"},
		"every other probe":  {func(_, probe int) bool { return probe%2 == 0 }, 31, 60, "exit code 1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				target := &commands{}
				target.answer = func(context.Context) (int64, string, error) {
					if c.fails(int(time.Since(start)/time.Second), target.runs) {
						return 1, "", nil
					}
					return 0, "", nil
				}
				err := Wait(t.Context(), target, stable)
				took := int(time.Since(start) / time.Second)
				if took < c.least || took > c.most || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v after %d seconds", err, took)
				}
			})
		})
	}
}

func TestWaitEndsWithTheProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		gone := &Ended{Failure{Cause: "its program has ended with exit code 3"}}
		err := Wait(t.Context(), &commands{ready: gone}, check)
		if !errors.Is(err, gone) || time.Since(start) > 0 {
			t.Errorf("got %v after %s", err, time.Since(start))
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	for name, c := range map[string]*commands{
		"in a pause": {answer: exits(1)},
		"in a probe": {answer: func(ctx context.Context) (int64, string, error) { <-ctx.Done(); return 0, "", ctx.Err() }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				err := Wait(ctx, c, check)
				if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != 5*time.Second {
					t.Errorf("got %v after %s", err, took)
				}
				if n := len(c.reported); n > 0 && strings.Contains(c.reported[n-1], "deadline") {
					t.Errorf("it reported %q", c.reported)
				}
			})
		})
	}
}
