package simulated

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"writ"
	"writ/internal/lazyregexp"
	"writ/internal/sleep"
	"writ/sal"
	"writ/sal/catalog"
)

var (
	flakyName = lazyregexp.New(`^flaky-([0-9]{1,3})-`)
	slowName  = lazyregexp.New(`^slow-([0-9]{1,4})-`)
	stuckName = lazyregexp.New(`^stuck-([0-9]{1,4})-`)
)

// inject returns the failure that the resource's name requests, and counts it.
func inject(e *effects, request sal.Request) error {
	name := request.Resource.Name
	if request.Operation.Effect == catalog.Remove {
		return nil
	}
	if strings.HasPrefix(name, "fail-") {
		return writ.Errorf(writ.CodeInjectedFinal,
			"%s fails because its name requests a failure from the simulated driver", request.Resource).
			WithHint("use a name without the prefix fail-")
	}
	limit, flaky := number(flakyName, name)
	if !flaky {
		return nil
	}
	n, err := e.failures(request.Resource)
	if err != nil {
		return sal.HostError("count the failures", err)
	}
	if n >= limit {
		return nil
	}
	failure := newEffect(request, 0)
	failure.Failure = true
	if err := e.add(failure); err != nil {
		return sal.HostError("count the failure", err)
	}
	return writ.Errorf(writ.CodeInjected,
		"%s fails for time %d of %d because its name requests failures from the simulated driver", request.Resource,
		n+1, limit)
}

// number returns the number in a name.
func number(pattern *lazyregexp.Regexp, name string) (int, bool) {
	m := pattern.FindStringSubmatch(name)
	if m == nil {
		return 0, false
	}
	n, err := strconv.Atoi(m[1])
	return n, err == nil
}

// durations are approximate times of the real tools on a server with an SSD. The time of image.fetch depends mostly on
// the network.
var durations = map[string]time.Duration{
	"image.fetch":          4 * time.Second,
	"volume.create":        120 * time.Millisecond,
	"volume.clone":         120 * time.Millisecond,
	"volume.send":          2 * time.Second,
	"volume.receive":       2 * time.Second,
	"machine.create":       900 * time.Millisecond,
	"machine.start":        600 * time.Millisecond,
	"machine.stop":         1500 * time.Millisecond,
	"machine.snapshot":     800 * time.Millisecond,
	"machine.restore":      500 * time.Millisecond,
	"machine.delete":       400 * time.Millisecond,
	"container.create":     300 * time.Millisecond,
	"container.stop":       500 * time.Millisecond,
	"container.exec":       200 * time.Millisecond,
	"container.run":        700 * time.Millisecond,
	"herodb.create":        300 * time.Millisecond,
	"herodb.backup":        time.Second,
	"herodb.restore":       time.Second,
	"herodb.rotate_secret": 100 * time.Millisecond,
}

// defaultDuration is the duration of operations without an entry.
const defaultDuration = 50 * time.Millisecond

// ignoringDeadline returns a context that is never cancelled if the resource's name requests that, else ctx.
func ignoringDeadline(ctx context.Context, request sal.Request) context.Context {
	if _, stuck := number(stuckName, request.Resource.Name); stuck && request.Operation.Effect != catalog.Remove {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// takeTime waits as long as a real driver would take, and reports progress. It ends early only if ctx does.
func takeTime(ctx context.Context, request sal.Request, speed float64) error {
	name := request.Operation.Name()
	total, known := durations[name]
	if !known {
		total = defaultDuration
	}
	total = time.Duration(float64(total) * max(speed, 0))
	if seconds, slow := number(slowName, request.Resource.Name); slow {
		total += time.Duration(seconds) * time.Second
	}
	if seconds, stuck := number(stuckName, request.Resource.Name); stuck && request.Operation.Effect != catalog.Remove {
		total += time.Duration(seconds) * time.Second
	}
	const parts = 10
	for i := range parts {
		if total <= 0 {
			break
		}
		request.Progress(fmt.Sprintf("simulating %s: %d %%", name, i*100/parts))
		if err := sleep.For(ctx, total/parts); err != nil {
			return err
		}
	}
	return ctx.Err()
}
