package saltest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"writ/sal"
	"writ/sal/catalog"
	"writ/sal/simulated"
)

// leaky is a driver that leaks a secret in one way.
type leaky struct {
	sal.Driver
	dir  string
	leak func(l *leaky, value string, o *sal.Outcome, r sal.Request) error
}

func (l *leaky) Do(ctx context.Context, r sal.Request) (sal.Outcome, error) {
	o, err := l.Driver.Do(ctx, r)
	if args, ok := r.Args.(*catalog.ContainerCreate); ok && err == nil {
		value, _ := args.Env["PROBE"].Reveal()
		err = l.leak(l, value, &o, r)
	}
	return o, err
}

// recorder records the errors of a suite instead of failing.
type recorder struct {
	testing.TB
	found []string
}

func (r *recorder) Errorf(format string, args ...any) {
	r.found = append(r.found, fmt.Sprintf(format, args...))
}

// Promise: Secrets: The conformance suite fails a driver that stores a secret.
// How: Arguments contain names; the suite searches all remaining files.
func TestSuiteDetectsLeakedSecrets(t *testing.T) {
	write := func(l *leaky, name, text string) error {
		return os.WriteFile(filepath.Join(l.dir, name), []byte(text), 0o600)
	}
	for name, tt := range map[string]struct {
		leak  func(l *leaky, value string, o *sal.Outcome, r sal.Request) error
		clean bool
	}{
		"in its record": {func(l *leaky, value string, _ *sal.Outcome, _ sal.Request) error { return write(l, "record", value) }, false},
		"encoded": {func(l *leaky, value string, _ *sal.Outcome, _ sal.Request) error {
			return write(l, "record", fmt.Sprintf("%x", value))
		}, false},
		"in a file name": {func(l *leaky, value string, _ *sal.Outcome, _ sal.Request) error { return write(l, value, "") }, false},
		"in its outcome": {func(_ *leaky, value string, o *sal.Outcome, _ sal.Request) error {
			o.Values["address"] = value
			return nil
		}, false},
		"while it works": {func(_ *leaky, value string, _ *sal.Outcome, r sal.Request) error {
			r.Progress("env PROBE=" + value)
			return nil
		}, false},
		"by its name": {func(l *leaky, _ string, _ *sal.Outcome, r sal.Request) error {
			return write(l, "record", fmt.Sprintf("%+v", r.Args))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{TB: t}
			keepsNoSecret(r, Suite{
				Make: Step{"container.create", map[string]any{"image": "web"}},
				Open: func(t testing.TB, host string, step func(string)) sal.Driver {
					d, err := simulated.Open(simulated.Config{Module: "container", Dir: host, Step: step})
					if err != nil {
						t.Fatal(err)
					}
					return &leaky{d, host, tt.leak}
				},
			})
			if clean := len(r.found) == 0; clean != tt.clean {
				t.Errorf("the suite finds %q", r.found)
			}
		})
	}
}
